//! The labels of a piece in a row. Padding has none, nor have the first token of a piece and tokens that are not trained.

use std::ops::Range;

use super::documents_of_rows::DocumentSlice;
use super::row_segments::RowSegment;
use crate::objective::UNTRAINED;

impl RowSegment<'_> {
    /// Appends the labels; if `shifted`, each one place before its token.
    pub(super) fn labels(&self, shifted: bool, values: &mut Vec<i32>) {
        let first = values.len();
        values.resize(first + self.room as usize, UNTRAINED);
        let Some(piece) = self.document_slice else { return };
        let labels = &mut values[first..];
        let ids = self.ids();
        for (trained, _) in trained(piece) {
            let places = before(&trained, shifted);
            for (label, id) in labels[places].iter_mut().zip(&ids[trained]) {
                *label = id.cast_signed();
            }
        }
    }

    /// Appends the first place in the row of each run of labels, and the place behind the run.
    pub(super) fn label_spans(&self, shifted: bool, values: &mut Vec<i32>) {
        let place = |at: usize| {
            let at = i32::try_from(at).expect("a row holds fewer than 2^31 tokens");
            self.start.cast_signed() + at
        };
        for (trained, _) in self.document_slice.into_iter().flat_map(trained) {
            let places = before(&trained, shifted);
            values.extend([place(places.start), place(places.end)]);
        }
    }

    /// Appends the weights: each stands where the label does.
    pub(super) fn weights(&self, shifted: bool, values: &mut Vec<f32>) {
        let first = values.len();
        values.resize(first + self.room as usize, 0.0);
        let Some(piece) = self.document_slice else { return };
        for (trained, weight) in trained(piece) {
            values[first..][before(&trained, shifted)].fill(weight);
        }
    }
}

/// The positions of the labels of trained tokens: their own, or if `shifted` each one before.
pub(super) fn before(trained: &Range<usize>, shifted: bool) -> Range<usize> {
    // A first token has no label, so there is always a place before.
    trained.start - usize::from(shifted)..trained.end - usize::from(shifted)
}

/// The positions of labels in a piece, and their weights.
pub(super) fn trained(piece: DocumentSlice<'_>) -> impl Iterator<Item = (Range<usize>, f32)> {
    piece.document.trained().iter().filter_map(move |run| {
        let start = run.start.max(piece.start + 1);
        let end = run.end.min(piece.start + piece.length);
        let inside =
            (start < end).then(|| (start - piece.start) as usize..(end - piece.start) as usize);
        inside.map(|inside| (inside, run.weight))
    })
}
