//! The compact layout: which columns a file holds of its rows ([`CompactColumn`]), and the rows made of these ([`CompactRows`]).
//!
//! A file in this layout has `input_ids` and `seq_lengths`; `label_spans`, the first place of each run of labels in its
//! row and the place behind it (`shifted_label_spans` where a label is the token behind its place); `label_weights`, the
//! weight of each run; and the other columns of the rows as they are. Its metadata names the columns of the rows.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray, PrimitiveArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Field, Float32Type, Int32Type, Schema, SchemaRef,
};
use arrow::record_batch::RecordBatch;

use super::lists::{LABEL_WEIGHTS, Lists, NumberLists, item};
use crate::config::{LABEL_SPANS, NumberType, RowColumn};
use crate::error::{Error, Result};
use crate::objective::UNTRAINED;
use crate::util::control::Control;

/// The metadata key under which a file in the compact layout names the columns of its rows, as JSON.
pub const COMPACT: &str = "fastpack.compact";

/// A column of a batch of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompactColumn {
    /// A column of the rows.
    Plain(RowColumn),
    /// The tokens as unsigned numbers.
    Ids(IdWidth),
    /// The runs of labels: the first place of each in its row, and the place behind it.
    LabelSpans {
        /// True if the label at a place is the token behind it.
        shifted: bool,
    },
    /// The weight of each run of labels.
    LabelWeights,
}

/// The bits of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdWidth {
    /// 16 bits.
    Short,
    /// 32 bits.
    Long,
}

impl IdWidth {
    /// The width for a vocabulary; 32 bits where it is unknown.
    pub(super) fn of(largest_id: Option<u32>) -> Self {
        match largest_id {
            Some(id) if id <= u16::MAX.into() => Self::Short,
            _ => Self::Long,
        }
    }
}

impl CompactColumn {
    /// The columns of the rows.
    pub(super) fn plain(columns: &[RowColumn]) -> Vec<Self> {
        columns.iter().copied().map(Self::Plain).collect()
    }

    /// The columns of the compact layout from which rows with these columns can be made.
    pub(super) fn compact(columns: &[RowColumn], width: IdWidth, shifted: bool) -> Vec<Self> {
        let mut stored = vec![Self::Ids(width), Self::Plain(RowColumn::SeqLengths)];
        let mut store = |column: Self| {
            if !stored.contains(&column) {
                stored.push(column);
            }
        };
        for &column in columns {
            match column {
                RowColumn::InputIds | RowColumn::PositionIds => {}
                RowColumn::Labels => store(Self::LabelSpans { shifted }),
                RowColumn::LossWeights => {
                    store(Self::LabelSpans { shifted });
                    store(Self::LabelWeights);
                }
                RowColumn::DocumentIds => store(Self::Plain(RowColumn::UnpaddedLengths)),
                RowColumn::SeqLengths
                | RowColumn::UnpaddedLengths
                | RowColumn::SourceFile
                | RowColumn::SourceRow
                | RowColumn::SourceTurn
                | RowColumn::SourceStart
                | RowColumn::AttnCost
                | RowColumn::Group
                | RowColumn::AttentionMask
                | RowColumn::TokenTypeIds
                | RowColumn::MmTokenTypeIds
                | RowColumn::Images
                | RowColumn::TargetSeqLengths
                | RowColumn::DecoderAttentionMask
                | RowColumn::PromptIds
                | RowColumn::ChosenIds
                | RowColumn::RejectedIds
                | RowColumn::CompletionIds
                | RowColumn::Label => store(Self::Plain(column)),
            }
        }
        stored
    }

    /// True if a row has a value for each of its tokens.
    pub(super) fn is_per_token(self) -> bool {
        match self {
            Self::Plain(column) => column.is_per_token(),
            Self::Ids(_) => true,
            Self::LabelSpans { .. } | Self::LabelWeights => false,
        }
    }
}

/// The columns with a value for each token, which are made of those of the compact layout.
pub const COMPUTED_COLUMNS: [RowColumn; 5] = [
    RowColumn::InputIds,
    RowColumn::Labels,
    RowColumn::PositionIds,
    RowColumn::LossWeights,
    RowColumn::DocumentIds,
];

/// The columns of the rows of a file with columns of these names; `None` if it is in the full layout. `metadata` is the text of
/// its metadata under [`COMPACT`].
pub fn shown_columns(names: &[String], metadata: Option<&[u8]>) -> Result<Option<Vec<String>>> {
    if let Some(metadata) = metadata {
        let columns = serde_json::from_slice(metadata);
        return columns.map(Some).map_err(|error| {
            Error::Rows(format!("the metadata `{COMPACT}` names no columns: {error}"))
        });
    }
    if !names.iter().any(|name| LABEL_SPANS.contains(&name.as_str())) {
        return Ok(None);
    }
    // `datasets` has dropped the metadata.
    let has_weights = names.iter().any(|name| name == LABEL_WEIGHTS);
    let derived = [
        RowColumn::InputIds,
        RowColumn::Labels,
        RowColumn::PositionIds,
        RowColumn::SeqLengths,
        RowColumn::LossWeights,
    ];
    let derived = derived.map(RowColumn::name).into_iter().take(if has_weights { 5 } else { 4 });
    let stored = |name: &str| LABEL_SPANS.contains(&name) || name == LABEL_WEIGHTS;
    let mut shown: Vec<String> = derived.map(str::to_owned).collect();
    let others = names.iter().filter(|name| !stored(name) && !shown.contains(name)).cloned();
    let others: Vec<String> = others.collect();
    shown.extend(others);
    Ok(Some(shown))
}

/// The schema of the full layout of rows in the compact layout, with these columns.
fn full_schema(stored: &Schema, columns: &[String]) -> Result<SchemaRef> {
    let fields = columns.iter().map(|name| match derived_column(name) {
        Some(column) => {
            let number = match column.usual().0 {
                NumberType::Float32 => DataType::Float32,
                NumberType::Int32
                | NumberType::Int64
                | NumberType::Bool
                | NumberType::Picture { .. } => DataType::Int32,
            };
            Ok(Field::new(name, DataType::List(item(number)), true))
        }
        None => Ok(stored.field_with_name(name)?.clone()),
    });
    Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<_>>>()?)))
}

fn derived_column(name: &str) -> Option<RowColumn> {
    COMPUTED_COLUMNS.into_iter().find(|column| column.name() == name)
}

/// The rows of a table in the compact layout in the full layout, with these columns.
///
/// Fails as [`CompactRows::new`] does.
pub fn expand_rows(
    stored: &Schema,
    batches: Vec<RecordBatch>,
    columns: &[String],
    control: &Control,
) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let schema = full_schema(stored, columns)?;
    let (mut expanded, mut first_row) = (Vec::with_capacity(batches.len()), 0);
    for batch in batches {
        control.tick()?;
        let rows = CompactRows::new(batch, first_row)?;
        first_row += rows.rows();
        expanded.push(rows.expanded(SchemaRef::clone(&schema))?);
    }
    Ok((schema, expanded))
}

/// Consecutive rows in the compact layout. Their columns in the full layout are made when they are asked for.
#[derive(Debug)]
pub struct CompactRows {
    batch: RecordBatch,
    ids: Lists,
    lengths: NumberLists<Int32Type>,
    /// The runs of labels.
    spans: Option<NumberLists<Int32Type>>,
    /// True if a label is the token behind its place.
    shifted: bool,
    weights: Option<NumberLists<Float32Type>>,
    unpadded: Option<NumberLists<Int32Type>>,
}

impl CompactRows {
    /// Checks that runs and lengths fit the tokens; messages count rows from `first_row`.
    ///
    /// Fails with [`Error::Rows`] if they contradict the tokens, a column is missing or holds nulls.
    pub fn new(batch: RecordBatch, first_row: usize) -> Result<Self> {
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            if column.null_count() > 0 || Lists::split(column).is_some_and(|it| it.has_nulls()) {
                let name = field.name();
                let message = format!("column `{name}` has nulls, which packed rows have not");
                return Err(Error::Rows(message));
            }
        }
        let missing = |column: RowColumn| {
            let name = column.name();
            Error::Rows(format!(
                "no lists in column `{name}`, of which rows in the compact layout are made"
            ))
        };
        let (ids, lengths) = (RowColumn::InputIds, RowColumn::SeqLengths);
        let [unshifted, shifted] = LABEL_SPANS.map(|name| NumberLists::of(&batch, name));
        let (unshifted, shifted) = (unshifted?, shifted?);
        let rows = Self {
            ids: Lists::of(&batch, ids.name()).ok().flatten().ok_or_else(|| missing(ids))?,
            lengths: NumberLists::of(&batch, lengths.name())?.ok_or_else(|| missing(lengths))?,
            shifted: unshifted.is_none(),
            spans: unshifted.or(shifted),
            weights: NumberLists::of(&batch, LABEL_WEIGHTS)?,
            unpadded: NumberLists::of(&batch, RowColumn::UnpaddedLengths.name())?,
            batch,
        };
        for row in 0..rows.rows() {
            rows.check(row)
                .map_err(|fault| Error::Rows(format!("row {}: {fault}", first_row + row)))?;
        }
        Ok(rows)
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.ids.rows()
    }

    /// The columns of `schema` in the full layout.
    fn expanded(&self, schema: SchemaRef) -> Result<RecordBatch> {
        let arrays = schema.fields().iter().map(|field| {
            if let Some(column) = derived_column(field.name()) {
                return self.lists(column);
            }
            let stored = self.batch.column_by_name(field.name());
            Ok(Arc::clone(stored.expect("the schema has columns of the batch")))
        });
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        Ok(RecordBatch::try_new(schema, arrays)?)
    }

    /// The lists of a made column for all rows.
    fn lists(&self, column: RowColumn) -> Result<ArrayRef> {
        let rows = 0..self.rows();
        let offsets = OffsetBuffer::from_lengths(rows.clone().map(|row| self.ids.len(row)));
        Ok(match column {
            RowColumn::LossWeights => list_array(offsets, self.loss_weights(rows)?),
            _ => list_array(offsets, self.numbers(column, rows)?),
        })
    }

    /// The values of a made column of whole numbers in some rows, end to end.
    pub fn numbers(
        &self,
        column: RowColumn,
        rows: Range<usize>,
    ) -> Result<PrimitiveArray<Int32Type>> {
        let mut values = Vec::with_capacity(self.ids.places(rows.clone()).len());
        match column {
            RowColumn::PositionIds => {
                for row in rows {
                    append_positions(self.lengths.row(row), &mut values);
                }
            }
            RowColumn::DocumentIds => {
                let name = RowColumn::UnpaddedLengths.name();
                let unpadded = needed(self.unpadded.as_ref(), name, column)?;
                for row in rows {
                    append_document_ids(self.lengths.row(row), unpadded.row(row), &mut values);
                }
            }
            RowColumn::Labels => {
                let spans = needed(self.spans.as_ref(), LABEL_SPANS[0], column)?;
                let ids = self.ids.numbers::<Int32Type>(rows.clone())?;
                let first = self.ids.places(rows.clone()).start;
                for row in rows {
                    let places = self.ids.places(row..row + 1);
                    let ids = &ids.values()[places.start - first..places.end - first];
                    append_labels(ids, spans.row(row), self.shifted, &mut values);
                }
            }
            _ => return self.ids.numbers(rows),
        }
        Ok(values.into())
    }

    /// The weight of each label in some rows, end to end.
    pub fn loss_weights(&self, rows: Range<usize>) -> Result<PrimitiveArray<Float32Type>> {
        let column = RowColumn::LossWeights;
        let spans = needed(self.spans.as_ref(), LABEL_SPANS[0], column)?;
        let weights = needed(self.weights.as_ref(), LABEL_WEIGHTS, column)?;
        let mut values = Vec::with_capacity(self.ids.places(rows.clone()).len());
        for row in rows {
            append_weights(self.ids.len(row), spans.row(row), weights.row(row), &mut values);
        }
        Ok(values.into())
    }

    /// The fault of a row as text.
    fn check(&self, row: usize) -> std::result::Result<(), String> {
        let (lengths, tokens) = (self.lengths.row(row), self.ids.len(row));
        let total: i64 = lengths.iter().map(|&length| i64::from(length)).sum();
        if usize::try_from(total) != Ok(tokens) || lengths.iter().any(|&length| length < 0) {
            let [name, ids] = [RowColumn::SeqLengths, RowColumn::InputIds].map(RowColumn::name);
            return Err(format!(
                "column `{name}` comes to {total}, but `{ids}` has {tokens} tokens"
            ));
        }
        let Some(spans) = &self.spans else { return Ok(()) };
        let (name, spans) = (LABEL_SPANS[usize::from(self.shifted)], spans.row(row));
        if !spans.len().is_multiple_of(2) {
            return Err(format!("column `{name}` has a run without an end"));
        }
        if !are_runs(spans, tokens) {
            return Err(format!("column `{name}` has runs that overlap or leave the row"));
        }
        match &self.weights {
            Some(weights) => check_weights(weights.row(row).len(), spans.len() / 2),
            None => Ok(()),
        }
    }
}

/// The column `name`, from which `column` is made.
fn needed<'a, T>(found: Option<&'a T>, name: &str, column: RowColumn) -> Result<&'a T> {
    let target = column.name();
    found.ok_or_else(|| Error::Rows(format!("no column `{name}`, of which `{target}` are made")))
}

fn list_array<T: ArrowPrimitiveType>(
    offsets: OffsetBuffer<i32>,
    numbers: PrimitiveArray<T>,
) -> ArrayRef {
    Arc::new(ListArray::new(item(T::DATA_TYPE), offsets, Arc::new(numbers), None))
}

/// The columns of a row in the full layout.
#[derive(Clone, Debug, Default)]
pub struct ExpandedRow {
    /// The labels.
    pub labels: Vec<i32>,
    /// The positions.
    pub positions: Vec<i32>,
    /// The weights, if the row has any.
    pub weights: Option<Vec<f32>>,
}

/// Makes the columns of one row of ids, lengths of documents, runs of labels, and the weights of these.
///
/// Fails with [`Error::Rows`] if runs overlap, leave the row, or have not a weight each.
pub fn expand_row(
    ids: &[i64],
    lengths: &[i64],
    spans: &[i64],
    shifted: bool,
    weights: Option<&[f32]>,
) -> Result<ExpandedRow> {
    let narrowed = |values: &[i64]| -> Option<Vec<i32>> {
        values.iter().map(|&value| i32::try_from(value).ok()).collect()
    };
    let fits = |spans: &Vec<i32>| spans.len().is_multiple_of(2) && are_runs(spans, ids.len());
    let Some(spans) = narrowed(spans).filter(fits) else {
        let tokens = ids.len();
        let message = format!("runs of labels overlap, or leave a row of {tokens} tokens");
        return Err(Error::Rows(message));
    };
    let beyond = || Error::Rows("ids and lengths have at most 31 bits".to_owned());
    let mut row = ExpandedRow::default();
    append_positions(&narrowed(lengths).ok_or_else(beyond)?, &mut row.positions);
    append_labels(&narrowed(ids).ok_or_else(beyond)?, &spans, shifted, &mut row.labels);
    if let Some(weights) = weights {
        check_weights(weights.len(), spans.len() / 2).map_err(Error::Rows)?;
        append_weights(ids.len(), &spans, weights, row.weights.insert(Vec::new()));
    }
    Ok(row)
}

/// True if each run begins behind the end of the run before it, and the last ends inside a row of `tokens` tokens.
fn are_runs(spans: &[i32], tokens: usize) -> bool {
    let inside = |&place: &i32| usize::try_from(place).is_ok_and(|place| place <= tokens);
    spans.is_sorted() && spans.first().is_none_or(inside) && spans.last().is_none_or(inside)
}

fn check_weights(weights: usize, runs: usize) -> std::result::Result<(), String> {
    let message = || format!("column `{LABEL_WEIGHTS}` has {weights} values for {runs} runs");
    if weights == runs { Ok(()) } else { Err(message()) }
}

/// The runs of labels as places in their row. Negative ones are refused before.
fn runs(spans: &[i32]) -> impl Iterator<Item = Range<usize>> {
    let place = |place: i32| place.cast_unsigned() as usize;
    spans.chunks_exact(2).map(move |run| place(run[0])..place(run[1]))
}

/// Appends the labels of a row: inside runs the token itself, or if `shifted` the token behind it.
fn append_labels(ids: &[i32], spans: &[i32], shifted: bool, to: &mut Vec<i32>) {
    let first = to.len();
    to.resize(first + ids.len(), UNTRAINED);
    for run in runs(spans) {
        let targets = &ids[(run.start + usize::from(shifted)).min(ids.len())..];
        for (label, &id) in to[first..][run].iter_mut().zip(targets) {
            *label = id;
        }
    }
}

/// Appends the weights of a row: that of its run for each label, and 0 outside of runs.
fn append_weights(tokens: usize, spans: &[i32], weights: &[f32], to: &mut Vec<f32>) {
    let first = to.len();
    to.resize(first + tokens, 0.0);
    for (run, &weight) in runs(spans).zip(weights) {
        to[first..][run].fill(weight);
    }
}

/// Appends the position of each token in its document, from 0.
fn append_positions(lengths: &[i32], to: &mut Vec<i32>) {
    for &length in lengths {
        to.extend(0..length);
    }
}

/// Appends the number of each token's document in its row, from 1; 0 for padding.
fn append_document_ids(lengths: &[i32], unpadded: &[i32], to: &mut Vec<i32>) {
    let mut number = 0;
    for (&length, &tokens) in lengths.iter().zip(unpadded) {
        number += i32::from(tokens > 0);
        to.extend((0..tokens.min(length)).map(|_| number));
        to.extend((tokens.max(0)..length).map(|_| 0));
    }
}
