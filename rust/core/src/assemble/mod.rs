//! A [`Plan`] and the [`Store`] to record batches.

mod padding;
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

pub use padding::Padding;
pub use ranges::batch_ranges;

/// The label of a token that the loss leaves out: what `torch.nn.CrossEntropyLoss` ignores.
const UNTRAINED: i32 = -100;

/// Builds the rows `rows` of `plan`.
///
/// `labels` are not shifted: they are the ids where trained, -100 elsewhere and on the first token of every
/// piece, which nothing before it may predict. `position_ids` restart at 0 in every piece. What fills a row up
/// stands at its end like one more piece without labels.
///
/// # Panics
///
/// If the rows hold 2³¹ tokens or more, the reach of an Arrow list ([`batch_ranges`] makes no such range),
/// or if the store has released one of their documents.
pub fn rows(
    store: &Store,
    plan: &Plan,
    rows: Range<usize>,
    padding: Padding,
    columns: &[RowColumn],
) -> Result<RecordBatch> {
    let room: Vec<u32> = rows.clone().map(|row| padding.room(plan.tokens_of(row))).collect();
    let cells = Cells { plan, rows, room: &room };
    let arrays = columns.iter().map(|&column| match column {
        RowColumn::InputIds => cells.per_token(
            |piece, values| {
                let ids = ids(source(store, plan, piece), piece).iter();
                values.extend(ids.map(|id| id.cast_signed()));
            },
            |room, values| values.extend((0..room).map(|_| padding.id())),
        ),
        RowColumn::Labels => cells.per_token(
            |piece, values| labels(source(store, plan, piece), piece, values),
            |room, values| values.extend((0..room).map(|_| UNTRAINED)),
        ),
        RowColumn::PositionIds => cells.per_token(
            |piece, values| values.extend(0..piece.length.cast_signed()),
            |room, values| values.extend(0..room.cast_signed()),
        ),
        RowColumn::SeqLengths => cells.per_piece(),
    });
    let arrays: Vec<ArrayRef> = arrays.collect();
    Ok(RecordBatch::try_new(schema::schema(columns), arrays)?)
}

/// The rows that columns are made of.
struct Cells<'a> {
    plan: &'a Plan,
    rows: Range<usize>,
    /// What each row is filled up with, in tokens.
    room: &'a [u32],
}

impl Cells<'_> {
    /// A column with a value for each token; `append` adds those of a piece, `fill` those behind the last.
    fn per_token(
        &self,
        append: impl Fn(Piece, &mut Vec<i32>),
        fill: impl Fn(u32, &mut Vec<i32>),
    ) -> ArrayRef {
        let lengths = self.rows.clone().zip(self.room);
        let lengths = lengths.map(|(row, room)| self.plan.tokens_of(row) + *room as usize);
        let mut values = Vec::with_capacity(lengths.clone().sum());
        for (row, &room) in self.rows.clone().zip(self.room) {
            for piece in self.plan.row(row) {
                append(piece, &mut values);
            }
            fill(room, &mut values);
        }
        list(values, lengths)
    }

    fn per_piece(&self) -> ArrayRef {
        let mut values = Vec::new();
        let mut lengths = Vec::with_capacity(self.room.len());
        for (row, room) in self.rows.clone().zip(self.room) {
            let before = values.len();
            values.extend(
                self.plan.lengths_of(row..row + 1).iter().map(|length| length.cast_signed()),
            );
            values.extend(Some(room.cast_signed()).filter(|room| *room > 0));
            lengths.push(values.len() - before);
        }
        list(values, lengths)
    }
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
