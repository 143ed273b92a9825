//! A [`Plan`](crate::pack::Plan) and the [`DocumentStore`](crate::document::store::DocumentStore) to record batches.

mod checks;
mod compact;
mod documents_of_rows;
mod images_column;
mod labels;
mod layout;
mod lists;
mod objective_columns;
mod padding;
mod ranges;
mod row_columns;
mod row_segments;
pub mod schema;
mod written_rows;

use std::ops::Range;

use arrow::array::ArrayRef;
use arrow::datatypes::{Float32Type, Int32Type, UInt32Type};
use arrow::record_batch::RecordBatch;

use crate::error::Result;

use compact::{CompactColumn, IdWidth};
use labels::trained;
use objective_columns::FilledColumns;
use row_columns::ColumnRows;

pub use checks::{CheckedRows, check_rows};
pub use compact::{
    COMPACT, COMPUTED_COLUMNS, CompactRows, ExpandedRow, expand_row, expand_rows, shown_columns,
};
pub use documents_of_rows::{DocumentSlice, DocumentsOfRows};
pub(crate) use layout::BatchSize;
pub use layout::{Layout, NumberedFiles};
pub(crate) use lists::NumberLists;
pub use padding::{Padding, padding_value};
pub use ranges::{BatchRanges, batch_ranges};
pub use written_rows::{
    DocumentTable, InspectedDocument, PackedOptions, RowBoundaries, RowLabel, document_hashes,
    documents_of, first_restart, inspect_row,
};

/// Rows, and the number of labels in them.
#[derive(Debug)]
pub struct Assembled {
    /// The rows.
    pub batch: RecordBatch,
    /// The labels of each row, none of repeated rows, where the objective chose them; `None` if the trained runs of
    /// documents tell their number.
    pub labels: Option<Vec<u64>>,
}

/// Builds the rows `rows` of the plan of `gathered`, without counting labels: the batch of [`assembled`].
pub fn rows(
    gathered: &DocumentsOfRows<'_>,
    rows: Range<usize>,
    layout: &Layout,
) -> Result<RecordBatch> {
    assembled(gathered, rows, layout).map(|assembled| assembled.batch)
}

/// Builds the rows `rows` of the plan of `gathered`.
///
/// `labels` are the ids where trained, -100 elsewhere and on the first token of every piece, which nothing before
/// it may predict; shifted, each stands where it is predicted. `position_ids` restart at 0 in every piece, and
/// count on through the padding of its length to a multiple. The padding of a row stands at one of its ends,
/// like one more piece without labels. In the compact layout the batch has the stored columns instead.
///
/// Fails with [`Error::Option`](crate::error::Error::Option) where an id has no room in the 16 bits that the vocabulary of the
/// tokenizer needs.
///
/// # Panics
///
/// If the rows hold 2³¹ tokens or more, the reach of an Arrow list ([`batch_ranges`] makes no such range),
/// or if `gathered` has not all of their documents.
pub fn assembled(
    gathered: &DocumentsOfRows<'_>,
    rows: Range<usize>,
    layout: &Layout,
) -> Result<Assembled> {
    let cells = ColumnRows::of(gathered, rows.clone(), layout)?;
    let filled = FilledColumns::of(gathered, rows, layout);
    let arrays = layout.stored().iter().map(|&column| match column {
        CompactColumn::Plain(column) => {
            let array = filled.as_ref().and_then(|filled| filled.array(column));
            array.map_or_else(|| cells.column(column), Ok)
        }
        CompactColumn::Ids(IdWidth::Short) => cells.short_ids(),
        CompactColumn::Ids(IdWidth::Long) => {
            Ok(cells.per_token::<UInt32Type>(|segment, values| {
                values.extend_from_slice(segment.ids());
                values.extend(
                    (segment.tokens()..segment.room).map(|_| layout.padding.id().cast_unsigned()),
                );
            }))
        }
        CompactColumn::LabelSpans { shifted } => {
            Ok(cells.per_run::<Int32Type>(|segment, values| {
                segment.label_spans(shifted, values);
            }))
        }
        CompactColumn::LabelWeights => Ok(cells.per_run::<Float32Type>(|segment, values| {
            values.extend(
                segment.document_slice.into_iter().flat_map(trained).map(|(_, weight)| weight),
            );
        })),
    });
    let arrays: Vec<ArrayRef> = arrays.collect::<Result<_>>()?;
    let batch = RecordBatch::try_new(layout.schema(), arrays)?;
    Ok(Assembled { batch, labels: filled.map(FilledColumns::into_labels) })
}
