//! `concat` for known lengths: documents end to end, cut where a row ends. `drop_last` leaves out the last incomplete row.
//!
//! [`OpenPacks`](crate::pack::OpenPacks) makes the same rows of pieces that are still arriving.

use super::in_order::OpenRow;
use crate::config::PackOptions;
use crate::error::Result;
use crate::pack::cancel_checks::TICK;
use crate::pack::pieces::{Piece, Pieces, too_many};
use crate::pack::row_members::RowMembers;
use crate::util::control::Control;

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
