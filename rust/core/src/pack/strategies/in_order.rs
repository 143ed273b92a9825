//! `sequential` and `none` for known lengths: whole pieces in input order, into the one open row.
//!
//! [`OpenPacks`](crate::pack::OpenPacks) makes the same rows of pieces that are still arriving.

use crate::config::PackOptions;
use crate::error::Result;
use crate::pack::cancel_checks::TICK;
use crate::pack::row_members::RowMembers;
use crate::util::control::Control;

/// The room left in the open row.
pub(super) struct OpenRow {
    max: u32,
    pub(super) most: u32,
    pub(super) space: u32,
    pub(super) pieces: u32,
}

impl OpenRow {
    pub(super) fn new(options: &PackOptions) -> Self {
        let (max, most) = (options.row_limit().get(), options.most_documents());
        Self { max, most, space: max, pieces: 0 }
    }

    pub(super) fn add(&mut self, room: u32) {
        self.space -= room;
        self.pieces += 1;
    }

    /// Closes the row in `rows`, and opens the next.
    pub(super) fn close(&mut self, rows: &mut RowMembers) {
        rows.close();
        (self.space, self.pieces) = (self.max, 0);
    }
}

/// Rows of whole pieces. A piece that does not fit closes the open row.
pub(crate) fn pack(
    lengths: &[u32],
    options: &PackOptions,
    control: &Control,
) -> Result<RowMembers> {
    next_fit(lengths, (0..).zip(lengths).map(|(index, _)| index), options, control)
}

/// Fills one row after the other with the pieces in `order`, and never returns to an earlier row.
pub(crate) fn next_fit(
    lengths: &[u32],
    order: impl Iterator<Item = u32>,
    options: &PackOptions,
    control: &Control,
) -> Result<RowMembers> {
    let mut rows = RowMembers::with_capacity(lengths.len());
    let mut open = OpenRow::new(options);
    for (dealt, index) in order.enumerate() {
        if dealt % TICK == 0 {
            control.tick()?;
        }
        let length = lengths[index as usize];
        if length > open.space || open.pieces == open.most {
            open.close(&mut rows);
        }
        rows.extend(index);
        open.add(length);
    }
    rows.close();
    Ok(rows)
}
