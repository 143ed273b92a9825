//! Longest first from a max-heap, into the one open row.
//!
//! A heap that is filled before it is emptied is a sort, so this sorts.

use super::in_order::next_fit;
use super::order::{histogram, longest_first};
use super::rows::RowMembers;
use crate::config::PackOptions;
use crate::control::Control;
use crate::error::Result;

pub(super) fn pack(
    lengths: &[u32],
    options: &PackOptions,
    control: &Control,
) -> Result<RowMembers> {
    let order = longest_first(lengths, &histogram(lengths, control)?, control)?;
    next_fit(lengths, order.into_iter(), options, control)
}
