//! In input order, into the one open row; a piece that does not fit closes it.

use super::rows::RowMembers;
use super::ticks::TICK;
use crate::config::PackOptions;
use crate::control::Control;
use crate::error::Result;

pub(super) fn pack(
    lengths: &[u32],
    options: &PackOptions,
    control: &Control,
) -> Result<RowMembers> {
    next_fit(lengths, (0..).zip(lengths).map(|(index, _)| index), options, control)
}

/// Fills one row after the other with the pieces in `order`, and never returns to an earlier row.
pub(super) fn next_fit(
    lengths: &[u32],
    order: impl Iterator<Item = u32>,
    options: &PackOptions,
    control: &Control,
) -> Result<RowMembers> {
    let (max, most) = (options.row_limit().get(), options.most_documents());
    let mut rows = RowMembers::with_capacity(lengths.len());
    let (mut space, mut documents) = (max, 0);
    for (dealt, index) in order.enumerate() {
        if dealt % TICK == 0 {
            control.tick()?;
        }
        let length = lengths[index as usize];
        if length > space || documents == most {
            rows.close();
            (space, documents) = (max, 0);
        }
        rows.extend(index);
        space -= length;
        documents += 1;
    }
    rows.close();
    Ok(rows)
}
