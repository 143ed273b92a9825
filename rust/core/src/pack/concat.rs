//! Concatenates documents in input order, and cuts at the end of each row.

use super::pieces::{Piece, Pieces, too_many};
use super::rows::RowMembers;
use super::ticks::TICK;
use crate::config::PackOptions;
use crate::control::Control;
use crate::error::Result;

/// Concatenated documents.
pub(super) struct Concatenated {
    /// The pieces of the documents, which the rows index.
    pub(super) pieces: Pieces,
    pub(super) rows: RowMembers,
    /// The pieces of the last row, if it is dropped.
    pub(super) tail: Vec<Piece>,
}

/// Concatenates `documents`, which may be of any length.
///
/// A row ends where it is full or has as many pieces as a row may have.
pub(super) fn pack(
    documents: &Pieces,
    options: &PackOptions,
    control: &Control,
) -> Result<Concatenated> {
    let (max, most) = (options.row_limit().get(), options.most_documents() as usize);
    let mut pieces = Pieces::with_capacity(documents.len());
    let mut rows = RowMembers::with_capacity(documents.len());
    let (mut space, mut begin) = (max, 0);
    for (at, document) in documents.iter().enumerate() {
        if at % TICK == 0 {
            control.tick()?;
        }
        let mut left = document;
        while left.length > 0 {
            let length = left.length.min(space);
            let index = u32::try_from(pieces.len()).map_err(|_| too_many())?;
            pieces.push(Piece { length, ..left });
            rows.extend(index);
            left.start += length;
            left.length -= length;
            space -= options.room(length);
            if space == 0 || pieces.len() - begin == most {
                control.tick()?;
                rows.close();
                (space, begin) = (max, pieces.len());
            }
        }
    }
    let tail = if options.drop_last {
        rows.truncate(begin);
        (begin..pieces.len()).map(|index| pieces.get(index)).collect()
    } else {
        Vec::new()
    };
    rows.close();
    Ok(Concatenated { pieces, rows, tail })
}
