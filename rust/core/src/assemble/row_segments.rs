//! [`segments`]: a row in segments: its pieces, each with its alignment padding, and the padding at one of its ends.

use super::documents_of_rows::DocumentSlice;
use super::padding::Padding;
use crate::document::INPUTS;
use crate::error::Origin;
use crate::pack::Plan;

/// A piece with its alignment padding, or the padding of a row.
pub(super) struct RowSegment<'a> {
    /// The piece; `None` for padding.
    pub(super) document_slice: Option<DocumentSlice<'a>>,
    /// Counted from 1 in each row; 0 for padding.
    pub(super) number: i32,
    /// Its first place in the row.
    pub(super) start: u32,
    /// The tokens it takes in the row.
    pub(super) room: u32,
}

impl<'a> RowSegment<'a> {
    pub(super) fn origin(&self) -> Option<Origin> {
        self.document_slice.map(|document_slice| document_slice.document.origin())
    }

    /// The tokens without padding.
    pub(super) fn tokens(&self) -> u32 {
        self.document_slice.map_or(0, |document_slice| document_slice.tokens)
    }

    /// The ids. As labels and in Arrow they are signed; no vocabulary comes near 2³¹.
    pub(super) fn ids(&self) -> &'a [u32] {
        self.document_slice.map_or(&[], |DocumentSlice { document, start, length, .. }| {
            &document.column(INPUTS)[start as usize..][..length as usize]
        })
    }
}

/// The segments of a row, whose pieces are `excerpts`. Padding is one too, so it has an entry of its own in the lengths of documents.
pub(super) fn segments<'a>(
    plan: &Plan,
    row: usize,
    document_slices: &[DocumentSlice<'a>],
    padding: Padding,
) -> impl Iterator<Item = RowSegment<'a>> {
    let room = padding.room(plan.padded_length_of_row(row));
    let filling = RowSegment { document_slice: None, number: 0, start: 0, room };
    let (before, after) = padding.sides(Some(filling).filter(|_| room > 0));
    let pieces = (1..).zip(document_slices).map(|(number, &document_slice)| RowSegment {
        document_slice: Some(document_slice),
        number,
        start: 0,
        room: plan.room(document_slice.tokens),
    });
    before.into_iter().chain(pieces).chain(after).scan(0, |end, segment| {
        let start = *end;
        *end += segment.room;
        Some(RowSegment { start, ..segment })
    })
}
