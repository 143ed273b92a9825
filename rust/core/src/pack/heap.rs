//! Longest first from a max-heap, into the one open row.
//!
//! A heap that is filled before it is emptied is a sort, so this sorts.

use std::num::NonZeroU32;

use super::order::longest_first;
use super::sequential::next_fit;
use super::{Piece, Plan};
use crate::control::Control;
use crate::error::Result;

pub(super) fn pack(pieces: &[Piece], max_length: NonZeroU32, control: &Control) -> Result<Plan> {
    let order = longest_first(pieces, control)?;
    next_fit(order.iter().map(|&index| pieces[index as usize]), max_length, control)
}
