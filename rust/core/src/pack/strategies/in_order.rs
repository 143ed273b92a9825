//! `sequential`, `concat` and `none` for known lengths: in input order, into the one open row.
//!
//! [`OpenPacks`](crate::pack::OpenPacks) makes the same rows of pieces that are still arriving.

use crate::config::PackOptions;
use crate::error::Result;
use crate::pack::cancel_checks::TICK;
use crate::pack::pieces::{Piece, Pieces, too_many};
use crate::pack::rows::RowMembers;
use crate::util::control::Control;

/// The room left in the open row.
struct OpenRow {
    max: u32,
    most: u32,
    space: u32,
    pieces: u32,
}

impl OpenRow {
    fn new(options: &PackOptions) -> Self {
        let (max, most) = (options.row_limit().get(), options.most_documents());
        Self { max, most, space: max, pieces: 0 }
    }

    fn add(&mut self, room: u32) {
        self.space -= room;
        self.pieces += 1;
    }

    /// Closes the row in `rows`, and opens the next.
    fn close(&mut self, rows: &mut RowMembers) {
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

/// Concatenated documents.
pub(crate) struct Concatenated {
    /// The pieces of the documents, which the rows index.
    pub(crate) pieces: Pieces,
    pub(crate) rows: RowMembers,
    /// The pieces of the last row, if it is dropped.
    pub(crate) tail: Vec<Piece>,
}

/// Rows of `documents` of any length, which are cut at the end of each row.
///
/// A row ends where it is full or has as many pieces as a row may have.
pub(crate) fn pack_cut(
    documents: &Pieces,
    options: &PackOptions,
    control: &Control,
) -> Result<Concatenated> {
    let mut pieces = Pieces::with_capacity(documents.len());
    let mut rows = RowMembers::with_capacity(documents.len());
    let mut open = OpenRow::new(options);
    for (at, document) in documents.iter().enumerate() {
        if at % TICK == 0 {
            control.tick()?;
        }
        let mut left = document;
        while left.length > 0 {
            let length = left.length.min(open.space);
            rows.extend(u32::try_from(pieces.len()).map_err(|_| too_many())?);
            pieces.push(Piece { length, ..left });
            left.start += length;
            left.length -= length;
            open.add(options.room(length));
            if open.space == 0 || open.pieces == open.most {
                control.tick()?;
                open.close(&mut rows);
            }
        }
    }
    let tail = if options.drop_last {
        let closed = pieces.len() - open.pieces as usize;
        rows.truncate(closed);
        (closed..pieces.len()).map(|index| pieces.get(index)).collect()
    } else {
        Vec::new()
    };
    rows.close();
    Ok(Concatenated { pieces, rows, tail })
}
