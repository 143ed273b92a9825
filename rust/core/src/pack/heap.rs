//! Longest first from a max-heap, into the one open row.
//!
//! A heap that is filled before it is emptied is a sort, so this sorts.

use super::Piece;
use super::order::longest_first;
use super::rows::Rows;
use super::sequential::next_fit;
use crate::config::PackOptions;
use crate::control::Control;
use crate::error::Result;

pub(super) fn pack(pieces: &[Piece], options: &PackOptions, control: &Control) -> Result<Rows> {
    next_fit(pieces, longest_first(pieces, control)?.into_iter(), options, control)
}
