//! [`FilledColumns`]: the columns that an objective makes, for the rows of a batch.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, ListArray, PrimitiveArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{ArrowPrimitiveType, Float32Type, Int32Type, Int64Type};

use super::documents_of_rows::DocumentsOfRows;
use super::layout::Layout;
use super::lists::item;
use crate::config::{ColumnUnit, NumberType, RowColumn};
use crate::objective::{ColumnValues, ObjectiveColumn, PaddingValues, RowPart};

/// The columns that the objective of a layout makes, piece by piece.
pub(super) struct FilledColumns<'a> {
    gathered: &'a DocumentsOfRows<'a>,
    rows: Range<usize>,
    layout: &'a Layout,
    columns: Vec<ObjectiveColumn>,
    values: Vec<ColumnValues>,
    /// The labels in each of these rows; none in rows that are repeated.
    labels: Vec<u64>,
}

impl<'a> FilledColumns<'a> {
    /// Makes the columns for some rows; `None` if rows hold documents as they are.
    pub(super) fn of(
        gathered: &'a DocumentsOfRows<'a>,
        rows: Range<usize>,
        layout: &'a Layout,
    ) -> Option<Self> {
        let objective = layout.objective();
        let columns = objective.columns();
        if columns.is_empty() {
            return None;
        }
        let plan = gathered.plan();
        let mut values = vec![ColumnValues::default(); columns.len()];
        let tokens: usize = rows.clone().map(|row| plan.padded_length_of_row(row)).sum();
        for (column, values) in columns.iter().zip(&mut values) {
            values.numbers.reserve(if column.per == ColumnUnit::Token { tokens } else { 0 });
        }
        let mut labels = Vec::with_capacity(rows.len());
        for row in rows.clone() {
            let mut in_row = 0;
            for piece in gathered.pieces(row..row + 1) {
                let (document, start, length) = (piece.document, piece.start, piece.length);
                let part = RowPart { document, start, length, first: piece.first };
                let label_count = objective.make(part, piece.sizes.key, &mut values);
                in_row += if row < plan.distinct_rows() { label_count } else { 0 };
                for values in &mut values {
                    values.ends.push(values.numbers.len());
                }
            }
            labels.push(in_row);
        }
        Some(Self { gathered, rows, layout, columns, values, labels })
    }

    /// The number of labels in each row; none in repeated rows.
    pub(super) fn into_labels(self) -> Vec<u64> {
        self.labels
    }

    /// A column of the rows; `None` if the objective does not make it.
    pub(super) fn array(&self, name: RowColumn) -> Option<ArrayRef> {
        let at = self.columns.iter().position(|column| column.name == name)?;
        let (column, values) = (self.columns[at], &self.values[at]);
        Some(match column.number {
            NumberType::Int32 => self.numbers::<Int32Type>(column, values, |number| number),
            NumberType::Int64 => self.numbers::<Int64Type>(column, values, i64::from),
            NumberType::Bool => {
                let numbers = self.numbers::<Int32Type>(column, values, |number| number);
                let truths = numbers.as_primitive::<Int32Type>().values().iter();
                Arc::new(truths.map(|&truth| Some(truth != 0)).collect::<BooleanArray>())
            }
            NumberType::Picture { .. } => unreachable!("no objective makes pictures"),
            NumberType::Float32 => self.numbers::<Float32Type>(column, values, |number| {
                f32::from_bits(number.cast_unsigned())
            }),
        })
    }

    fn numbers<T: ArrowPrimitiveType>(
        &self,
        column: ObjectiveColumn,
        values: &ColumnValues,
        number: impl Fn(i32) -> T::Native,
    ) -> ArrayRef {
        let Self { gathered, layout, .. } = self;
        let plan = gathered.plan();
        let (padding, targets) = (layout.padding, layout.target_padding);
        let fill = match (column.fill, column.per) {
            (PaddingValues::With(value), _) => value,
            (PaddingValues::Padding, ColumnUnit::Target) => targets.id(),
            (PaddingValues::Padding, _) => padding.id(),
        };
        let mut numbers = Vec::with_capacity(values.numbers.len());
        let mut lengths = Vec::with_capacity(self.rows.len());
        let mut part = 0;
        for row in self.rows.clone() {
            let before = numbers.len();
            let filling = match column.per {
                ColumnUnit::Token => padding.room(plan.padded_length_of_row(row)),
                ColumnUnit::Target => targets.room(plan.targets_of(row)),
                ColumnUnit::Document => padding.room(plan.padded_length_of_row(row)).min(1),
                ColumnUnit::Row => u32::from(plan.row(row).len() == 0),
                ColumnUnit::List => 0,
            };
            let filling = std::iter::repeat_n(number(fill), filling as usize);
            let (left, right) = padding.sides(Some(filling));
            numbers.extend(left.into_iter().flatten());
            for piece in plan.row(row) {
                let start = numbers.len();
                numbers.extend(values.of(part).iter().map(|&value| number(value)));
                if column.per == ColumnUnit::Token {
                    numbers.resize(start + plan.room(piece.tokens()) as usize, number(fill));
                }
                part += 1;
            }
            numbers.extend(right.into_iter().flatten());
            lengths.push(numbers.len() - before);
        }
        let numbers = Arc::new(PrimitiveArray::<T>::new(numbers.into(), None));
        if column.per == ColumnUnit::Row {
            return numbers;
        }
        let offsets = OffsetBuffer::from_lengths(lengths);
        Arc::new(ListArray::new(item(T::DATA_TYPE), offsets, numbers, None))
    }
}

/// The lengths of documents in the targets of some rows, with those of padding.
pub(super) fn target_lengths(
    gathered: &DocumentsOfRows<'_>,
    rows: Range<usize>,
    layout: &Layout,
) -> ArrayRef {
    targets(gathered, rows, layout, |length, _, lengths| lengths.push(length.cast_signed()))
}

/// 1 for each token of the targets of some rows, 0 for padding.
pub(super) fn target_masks(
    gathered: &DocumentsOfRows<'_>,
    rows: Range<usize>,
    layout: &Layout,
) -> ArrayRef {
    targets(gathered, rows, layout, |length, is_padding, masks| {
        masks.extend(std::iter::repeat_n(i32::from(!is_padding), length as usize));
    })
}

/// A column of lists about the targets of rows. `append` adds the values of a document or of padding, which has a
/// length too.
fn targets(
    gathered: &DocumentsOfRows<'_>,
    rows: Range<usize>,
    layout: &Layout,
    append: impl Fn(u32, bool, &mut Vec<i32>),
) -> ArrayRef {
    let (plan, padding) = (gathered.plan(), layout.target_padding);
    let (mut numbers, mut lengths) = (Vec::new(), Vec::with_capacity(rows.len()));
    for row in rows {
        let before = numbers.len();
        let room = Some(padding.room(plan.targets_of(row))).filter(|room| *room > 0);
        let (left, right) = padding.sides(room);
        if let Some(room) = left {
            append(room, true, &mut numbers);
        }
        for piece in plan.row(row) {
            append(piece.sizes.targets, false, &mut numbers);
        }
        if let Some(room) = right {
            append(room, true, &mut numbers);
        }
        lengths.push(numbers.len() - before);
    }
    let numbers = Arc::new(PrimitiveArray::<Int32Type>::new(numbers.into(), None));
    let offsets = OffsetBuffer::from_lengths(lengths);
    Arc::new(ListArray::new(item(Int32Type::DATA_TYPE), offsets, numbers, None))
}
