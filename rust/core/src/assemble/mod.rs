//! A [`Plan`] and the [`Store`] to record batches.

mod ranges;
pub mod schema;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::record_batch::RecordBatch;

use crate::config::RowColumn;
use crate::document::{Document, INPUTS};
use crate::error::Result;
use crate::pack::{Piece, Plan};
use crate::store::Store;

pub use ranges::batch_ranges;

/// The label of a token that the loss leaves out: what `torch.nn.CrossEntropyLoss` ignores.
const UNTRAINED: i32 = -100;

/// Builds the rows `rows` of `plan`.
///
/// `labels` are not shifted: they are the ids where trained, -100 elsewhere and on the first token of every
/// piece, which nothing before it may predict. `position_ids` restart at 0 in every piece.
///
/// # Panics
///
/// If the rows hold 2³¹ tokens or more, the reach of an Arrow list ([`batch_ranges`] makes no such range),
/// or if the store has released one of their documents.
pub fn rows(
    store: &Store,
    plan: &Plan,
    rows: Range<usize>,
    columns: &[RowColumn],
) -> Result<RecordBatch> {
    let arrays = columns.iter().map(|&column| match column {
        RowColumn::InputIds => per_token(plan, rows.clone(), |piece, values| {
            values.extend(ids(source(store, plan, piece), piece).iter().map(|id| id.cast_signed()));
        }),
        RowColumn::Labels => per_token(plan, rows.clone(), |piece, values| {
            labels(source(store, plan, piece), piece, values);
        }),
        RowColumn::PositionIds => per_token(plan, rows.clone(), |piece, values| {
            values.extend(0..piece.length.cast_signed());
        }),
        RowColumn::SeqLengths => per_piece(plan, rows.clone()),
    });
    let arrays: Vec<ArrayRef> = arrays.collect();
    Ok(RecordBatch::try_new(schema::schema(columns), arrays)?)
}

/// A column with a value for each token; `append` adds those of a piece.
fn per_token(plan: &Plan, rows: Range<usize>, append: impl Fn(Piece, &mut Vec<i32>)) -> ArrayRef {
    let tokens: usize = plan.lengths_of(rows.clone()).iter().map(|&length| length as usize).sum();
    let mut values = Vec::with_capacity(tokens);
    for piece in plan.pieces(rows.clone()) {
        append(piece, &mut values);
    }
    let lengths = rows.map(|row| {
        let lengths = plan.lengths_of(row..row + 1);
        lengths.iter().map(|&length| length as usize).sum()
    });
    list(values, lengths)
}

fn per_piece(plan: &Plan, rows: Range<usize>) -> ArrayRef {
    let values = plan.lengths_of(rows.clone()).iter().map(|length| length.cast_signed()).collect();
    list(values, rows.map(|row| plan.lengths_of(row..row + 1).len()))
}

/// Copies nothing: the list takes the values over.
fn list(values: Vec<i32>, lengths: impl IntoIterator<Item = usize>) -> ArrayRef {
    let offsets = OffsetBuffer::from_lengths(lengths);
    Arc::new(ListArray::new(schema::item(), offsets, Arc::new(Int32Array::from(values)), None))
}

fn source<'a>(store: &'a Store, plan: &Plan, piece: Piece) -> Document<'a> {
    store.document(plan.first_document() + u64::from(piece.document))
}

/// The ids of a piece. As labels and in Arrow they are signed; no vocabulary comes near 2³¹.
fn ids(document: Document<'_>, piece: Piece) -> &[u32] {
    &document.column(INPUTS)[piece.start as usize..][..piece.length as usize]
}

fn labels(document: Document<'_>, piece: Piece, values: &mut Vec<i32>) {
    let first = values.len();
    values.resize(first + piece.length as usize, UNTRAINED);
    let labels = &mut values[first..];
    let ids = ids(document, piece);
    for run in document.trained() {
        let start = run.start.max(piece.start + 1);
        let end = run.end.min(piece.start + piece.length);
        if start < end {
            let trained = (start - piece.start) as usize..(end - piece.start) as usize;
            for (label, id) in labels[trained.clone()].iter_mut().zip(&ids[trained]) {
                *label = id.cast_signed();
            }
        }
    }
}
