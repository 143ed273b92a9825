//! [`ColumnRows`]: the columns of rows, from the pieces in them.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, ListArray, PrimitiveArray};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{Float32Type, Int32Type, Int64Type, UInt16Type};

use super::documents_of_rows::{DocumentSlice, DocumentsOfRows};
use super::images_column::PictureLists;
use super::layout::Layout;
use super::lists::item;
use super::objective_columns;
use super::padding::NO_SOURCE;
use super::row_segments::{RowSegment, segments};
use crate::config::{BYTES_OF_VALUE, RowColumn};
use crate::error::{Error, Result};
use crate::util::free_memory;

/// The rows from which columns are made.
pub(super) struct ColumnRows<'a> {
    gathered: &'a DocumentsOfRows<'a>,
    rows: Range<usize>,
    /// The pieces of the rows.
    document_slices: Vec<DocumentSlice<'a>>,
    layout: &'a Layout,
}

impl<'a> ColumnRows<'a> {
    /// Rows of a plan. Fails where memory has no room for their columns.
    pub(super) fn of(
        gathered: &'a DocumentsOfRows<'a>,
        rows: Range<usize>,
        layout: &'a Layout,
    ) -> Result<Self> {
        let cells = Self { gathered, rows: rows.clone(), document_slices: Vec::new(), layout };
        cells.require_memory()?;
        Ok(Self { document_slices: gathered.fetch(rows), ..cells })
    }

    /// The tokens of the rows, padding included.
    pub(super) fn tokens(&self) -> usize {
        let padded_lengths =
            self.rows.clone().map(|row| self.gathered.plan().padded_length_of_row(row));
        padded_lengths.map(|room| room + self.layout.padding.room(room) as usize).sum()
    }

    /// Fails where memory has no room for the columns: one row can have 2³¹ tokens.
    fn require_memory(&self) -> Result<()> {
        let columns = self.layout.stored().iter().filter(|column| column.is_per_token()).count();
        let tokens = self.tokens();
        free_memory::require(BYTES_OF_VALUE * (tokens * columns) as u64, "max_length", || {
            format!("allows rows of {tokens} tokens")
        })
    }

    /// A column of the rows. Fails where a picture that rows embed has changed.
    pub(super) fn column(&self, column: RowColumn) -> Result<ArrayRef> {
        let Self { gathered, rows, layout, .. } = self;
        Ok(match column {
            RowColumn::InputIds => self.per_token::<Int32Type>(|segment, values| {
                values.extend(segment.ids().iter().map(|id| id.cast_signed()));
                values.extend((segment.tokens()..segment.room).map(|_| layout.padding.id()));
            }),
            RowColumn::Labels => self.per_token::<Int32Type>(|segment, values| {
                segment.labels(layout.shift_labels, values);
            }),
            RowColumn::PositionIds => self.per_token::<Int32Type>(|segment, values| {
                values.extend(0..segment.room.cast_signed());
            }),
            RowColumn::DocumentIds => self.per_token::<Int32Type>(|segment, values| {
                values.extend((0..segment.tokens()).map(|_| segment.number));
                values.extend((segment.tokens()..segment.room).map(|_| 0));
            }),
            RowColumn::LossWeights => self.per_token::<Float32Type>(|segment, values| {
                segment.weights(layout.shift_labels, values);
            }),
            RowColumn::AttentionMask => self.per_token::<Int32Type>(|segment, values| {
                values.extend((0..segment.tokens()).map(|_| 1));
                values.extend((segment.tokens()..segment.room).map(|_| 0));
            }),
            RowColumn::TokenTypeIds | RowColumn::MmTokenTypeIds => {
                let types = layout.token_types(column);
                self.per_token::<Int32Type>(|segment, values| {
                    let ids = segment.ids().iter();
                    values.extend(ids.map(|id| types.map_or(0, |types| types.of(*id))));
                    values.extend((segment.tokens()..segment.room).map(|_| 0));
                })
            }
            RowColumn::TargetSeqLengths => {
                objective_columns::target_lengths(gathered, rows.clone(), layout)
            }
            RowColumn::DecoderAttentionMask => {
                objective_columns::target_masks(gathered, rows.clone(), layout)
            }
            RowColumn::SeqLengths => self.per_segment::<Int32Type>(|it| it.room.cast_signed()),
            RowColumn::UnpaddedLengths => {
                self.per_segment::<Int32Type>(|it| it.tokens().cast_signed())
            }
            RowColumn::SourceFile => self.per_segment::<Int32Type>(|segment| {
                segment.origin().map_or(NO_SOURCE, |it| layout.sources.number(&it.path))
            }),
            RowColumn::SourceRow => self.per_segment::<Int64Type>(|segment| {
                segment.origin().map_or_else(|| NO_SOURCE.into(), |it| it.line.cast_signed())
            }),
            RowColumn::SourceTurn => self.per_segment::<Int32Type>(|segment| {
                segment.document_slice.map_or(NO_SOURCE, |it| it.document.turn().cast_signed())
            }),
            RowColumn::SourceStart => self.per_segment::<Int32Type>(|segment| {
                segment.document_slice.map_or(NO_SOURCE, |it| it.first.cast_signed())
            }),
            RowColumn::AttnCost => self
                .per_row::<Int64Type>(|row| self.gathered.plan().attention_cost(row).cast_signed()),
            RowColumn::Group => self.per_row::<Int32Type>(|row| layout.group(row)),
            RowColumn::Images => {
                let mut pictures = PictureLists::new(layout.embeds_pictures());
                for row in rows.clone() {
                    let entries = self.segments(row).map(|segment| segment.document_slice);
                    pictures.push_row(entries, layout.remote_pictures())?;
                }
                pictures.finish()
            }
            RowColumn::PromptIds
            | RowColumn::ChosenIds
            | RowColumn::RejectedIds
            | RowColumn::CompletionIds
            | RowColumn::Label => {
                unreachable!("options refuse a column that the objective does not make")
            }
        })
    }

    /// The tokens in 16 bits.
    pub(super) fn short_ids(&self) -> Result<ArrayRef> {
        let narrowed = |id: u32| u16::try_from(id).ok();
        let padding = narrowed(self.layout.padding.id().cast_unsigned()).unwrap_or(0);
        let misfit = Cell::new(None);
        let ids = self.per_token::<UInt16Type>(|segment, values| {
            let ids = segment.ids();
            // One pass that finds the largest, and one that copies: both without a branch for each id.
            if let Some(largest) = ids.iter().copied().max().filter(|id| narrowed(*id).is_none()) {
                misfit.set(segment.origin().map(|origin| (largest, origin)));
            }
            values.extend(ids.iter().map(|id| narrowed(*id).unwrap_or(0)));
            values.extend((segment.tokens()..segment.room).map(|_| padding));
        });
        match misfit.take() {
            None => Ok(ids),
            Some((id, origin)) => {
                let reason = format!(
                    "is \"compact\", and the tokenizer's ids fit 16 bits, but {origin} has the id {id}; pass the tokenizer \
                     of these ids, none, or the layout \"full\""
                );
                Err(Error::option("format.layout", reason))
            }
        }
    }

    /// A column with values for each run of labels; `append` adds those of a segment.
    pub(super) fn per_run<T: ArrowPrimitiveType>(
        &self,
        append: impl Fn(&RowSegment<'a>, &mut Vec<T::Native>),
    ) -> ArrayRef {
        self.lists::<T>(self.gathered.plan().pieces(self.rows.clone()).len(), append)
    }

    /// A column with a value for each token; `append` adds those of a segment.
    pub(super) fn per_token<T: ArrowPrimitiveType>(
        &self,
        append: impl Fn(&RowSegment<'a>, &mut Vec<T::Native>),
    ) -> ArrayRef {
        self.lists::<T>(self.tokens(), append)
    }

    /// A column with a value for each entry of `seq_lengths`.
    fn per_segment<T: ArrowPrimitiveType>(
        &self,
        value: impl Fn(&RowSegment<'a>) -> T::Native,
    ) -> ArrayRef {
        let most = self.gathered.plan().pieces(self.rows.clone()).len() + self.rows.len();
        self.lists::<T>(most, |segment, values| values.push(value(segment)))
    }

    /// A column with one value for each row.
    fn per_row<T: ArrowPrimitiveType>(&self, value: impl Fn(usize) -> T::Native) -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::from_iter_values(self.rows.clone().map(value)))
    }

    /// Copies nothing: the list takes the values over.
    fn lists<T: ArrowPrimitiveType>(
        &self,
        most: usize,
        append: impl Fn(&RowSegment<'a>, &mut Vec<T::Native>),
    ) -> ArrayRef {
        let mut values = Vec::with_capacity(most);
        let mut lengths = Vec::with_capacity(self.rows.len());
        for row in self.rows.clone() {
            let before = values.len();
            for segment in self.segments(row) {
                append(&segment, &mut values);
            }
            lengths.push(values.len() - before);
        }
        let item = item(T::DATA_TYPE);
        let values = Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), None));
        Arc::new(ListArray::new(item, OffsetBuffer::from_lengths(lengths), values, None))
    }

    /// The segments of a row.
    fn segments(&self, row: usize) -> impl Iterator<Item = RowSegment<'a>> {
        let plan = self.gathered.plan();
        let first = plan.first_piece(self.rows.start);
        let pieces = plan.first_piece(row) - first..plan.first_piece(row + 1) - first;
        segments(plan, row, &self.document_slices[pieces], self.layout.padding)
    }
}
