//! [`Generation`]: a prompt is answered.

use super::kind::{ColumnValues, Objective, ObjectiveColumn, PaddingValues, RowPart};
use crate::config::{ColumnUnit, NumberType, RowColumn};

/// A prompt is answered: rows hold the ids of prompts, and no labels.
#[derive(Debug)]
pub(super) struct Generation;

impl Objective for Generation {
    fn columns(&self) -> Vec<ObjectiveColumn> {
        let column = |name, fill| ObjectiveColumn {
            name,
            number: NumberType::Int32,
            per: ColumnUnit::Token,
            fill,
        };
        vec![
            column(RowColumn::InputIds, PaddingValues::Padding),
            column(RowColumn::AttentionMask, PaddingValues::With(0)),
        ]
    }

    fn make(&self, part: RowPart<'_>, _: u64, columns: &mut [ColumnValues]) -> u64 {
        let [ids, mask] = columns else { return 0 };
        ids.numbers.extend(part.ids().iter().map(|id| id.cast_signed()));
        mask.numbers.extend(part.ids().iter().map(|_| 1));
        0
    }
}
