//! [`Function`]: a function of the caller gives documents their labels.

use super::kind::{
    Fill, Objective, ObjectiveColumn, RowPart, UNTRAINED, Values, inputs_and_labels,
};
use crate::config::{Number, Per, RowColumn};
use crate::document::{ColumnName, INPUTS, MADE_LABELS, MADE_TYPES};

/// A function of the caller gives documents their labels.
///
/// The function has made the documents before they are stored, so rows hold their columns as they are. The first token
/// of a part that begins inside a document has no label, since nothing in its row comes before it.
#[derive(Debug)]
pub(super) struct Function;

impl Objective for Function {
    fn reads(&self) -> &'static [ColumnName] {
        &[INPUTS, MADE_LABELS, MADE_TYPES]
    }

    fn columns(&self) -> Vec<ObjectiveColumn> {
        let column =
            |name, number| ObjectiveColumn { name, number, per: Per::Token, fill: Fill::With(0) };
        let mut columns = inputs_and_labels();
        columns.push(column(RowColumn::LossWeights, Number::Float32));
        columns.push(column(RowColumn::TokenTypeIds, Number::Int32));
        columns
    }

    fn learns(&self, part: RowPart<'_>) -> bool {
        labels(part).any(|label| label != UNTRAINED)
    }

    fn make(&self, part: RowPart<'_>, _: u64, columns: &mut [Values]) -> u64 {
        let [inputs, made_labels, weights, types] = columns else { return 0 };
        inputs.numbers.extend(part.ids().iter().map(|id| id.cast_signed()));
        let first = made_labels.numbers.len();
        made_labels.numbers.extend(labels(part));
        let made = &made_labels.numbers[first..];
        let trained = made.iter().filter(|&&label| label != UNTRAINED).count();

        let start = weights.numbers.len();
        weights.numbers.resize(start + made.len(), 0);
        let end = part.start + part.length;
        for run in part.document.trained() {
            for at in run.start.max(part.start)..run.end.min(end) {
                let at = (at - part.start) as usize;
                if made[at] != UNTRAINED {
                    weights.numbers[start + at] = run.weight.to_bits().cast_signed();
                }
            }
        }

        let given = part.document.column(MADE_TYPES);
        let given = given.get(part.start as usize..end as usize);
        match given {
            Some(given) => types.numbers.extend(given.iter().map(|number| number.cast_signed())),
            None => types.numbers.resize(types.numbers.len() + part.length as usize, 0),
        }
        trained as u64
    }
}

/// The labels of a part.
fn labels(part: RowPart<'_>) -> impl Iterator<Item = i32> {
    let made = &part.document.column(MADE_LABELS)[part.start as usize..][..part.length as usize];
    let goes_on = part.first > 0;
    made.iter().enumerate().map(
        move |(at, label)| {
            if at == 0 && goes_on { UNTRAINED } else { label.cast_signed() }
        },
    )
}
