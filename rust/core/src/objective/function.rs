//! [`Function`]: a function of the caller gives documents their labels.

use super::kind::{
    ColumnValues, Objective, ObjectiveColumn, PaddingValues, RowPart, UNTRAINED, inputs_and_labels,
};
use crate::config::{ColumnUnit, NumberType, RowColumn};
use crate::document::{CUSTOM_LABELS, CUSTOM_TOKEN_TYPES, ColumnName, INPUTS};

/// A function of the caller gives documents their labels.
///
/// The function has made the documents before they are stored, so rows hold their columns as they are. The first token
/// of a part that begins inside a document has no label, since nothing in its row comes before it.
#[derive(Debug)]
pub(super) struct Function;

impl Objective for Function {
    fn reads(&self) -> &'static [ColumnName] {
        &[INPUTS, CUSTOM_LABELS, CUSTOM_TOKEN_TYPES]
    }

    fn columns(&self) -> Vec<ObjectiveColumn> {
        let column = |name, number| ObjectiveColumn {
            name,
            number,
            per: ColumnUnit::Token,
            fill: PaddingValues::With(0),
        };
        let mut columns = inputs_and_labels();
        columns.push(column(RowColumn::LossWeights, NumberType::Float32));
        columns.push(column(RowColumn::TokenTypeIds, NumberType::Int32));
        columns
    }

    fn learns(&self, part: RowPart<'_>) -> bool {
        labels(part).any(|label| label != UNTRAINED)
    }

    fn make(&self, part: RowPart<'_>, _: u64, columns: &mut [ColumnValues]) -> u64 {
        let [inputs, label_values, weights, types] = columns else { return 0 };
        inputs.numbers.extend(part.ids().iter().map(|id| id.cast_signed()));
        let first = label_values.numbers.len();
        label_values.numbers.extend(labels(part));
        let row_labels = &label_values.numbers[first..];
        let trained = row_labels.iter().filter(|&&label| label != UNTRAINED).count();

        let start = weights.numbers.len();
        weights.numbers.resize(start + row_labels.len(), 0);
        let end = part.start + part.length;
        for run in part.document.trained() {
            for at in run.start.max(part.start)..run.end.min(end) {
                let at = (at - part.start) as usize;
                if row_labels[at] != UNTRAINED {
                    weights.numbers[start + at] = run.weight.to_bits().cast_signed();
                }
            }
        }

        let document_types = part.document.column(CUSTOM_TOKEN_TYPES);
        let document_types = document_types.get(part.start as usize..end as usize);
        match document_types {
            Some(document_types) => {
                types.numbers.extend(document_types.iter().map(|number| number.cast_signed()));
            }
            None => types.numbers.resize(types.numbers.len() + part.length as usize, 0),
        }
        trained as u64
    }
}

/// The labels of a part.
fn labels(part: RowPart<'_>) -> impl Iterator<Item = i32> {
    let part_labels =
        &part.document.column(CUSTOM_LABELS)[part.start as usize..][..part.length as usize];
    let goes_on = part.first > 0;
    part_labels
        .iter()
        .enumerate()
        .map(move |(at, label)| if at == 0 && goes_on { UNTRAINED } else { label.cast_signed() })
}
