//! Longest first from a max-heap, into the one open row.
//!
//! A heap that is filled before it is emptied is a sort, so this sorts.

use super::in_order::next_fit;
use crate::config::PackOptions;
use crate::error::Result;
use crate::pack::cancellable_sort::{histogram, longest_first};
use crate::pack::row_members::RowMembers;
use crate::util::control::Control;

pub(crate) fn pack(
    lengths: &[u32],
    options: &PackOptions,
    control: &Control,
) -> Result<RowMembers> {
    let order = longest_first(lengths, &histogram(lengths, control)?, control)?;
    next_fit(lengths, order.into_iter(), options, control)
}
