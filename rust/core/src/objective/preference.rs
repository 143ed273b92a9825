//! [`Preference`]: an answer is preferred to another, or judged.

use super::kind::{
    ColumnValues, Objective, ObjectiveColumn, PaddingValues, PartSize, RowLimits, RowPart,
};
use crate::config::{ColumnUnit, NumberType, PreferenceForm, RowColumn};
use crate::document::{ColumnName, Document, INPUTS, LABELS, PARTS};

/// An answer is preferred to another, or judged.
///
/// A document is a prompt and its answers, one after the other. A row is as long as the prompt with the longest answer.
/// If that is too long, each answer is cut off at the end.
#[derive(Debug)]
pub(super) struct Preference {
    form: PreferenceForm,
}

/// The tokens of a prompt, and of each of its answers.
struct AnswerLengths<'a> {
    prompt: u32,
    answers: &'a [u32],
}

impl<'a> AnswerLengths<'a> {
    fn of(document: Document<'a>) -> Self {
        let parts = document.column(PARTS).split_first();
        let (prompt, answers) = parts.map_or((0, &[][..]), |(prompt, answers)| (*prompt, answers));
        Self { prompt, answers }
    }

    /// The tokens in all.
    fn all(&self) -> u32 {
        self.prompt + self.answers.iter().sum::<u32>()
    }

    /// The tokens of a row in which answers have at most `most` tokens.
    fn row(&self, most: u32) -> u32 {
        self.prompt + self.answers.iter().map(|answer| *answer.min(&most)).max().unwrap_or(0)
    }

    /// The tokens of prompt and answers that have at most `most` tokens each.
    fn within(&self, most: u32) -> u32 {
        self.prompt + self.answers.iter().map(|answer| *answer.min(&most)).sum::<u32>()
    }

    /// The most tokens of an answer where all together have `tokens`.
    fn most(&self, tokens: u32) -> u32 {
        if tokens >= self.all() {
            return self.answers.iter().copied().max().unwrap_or(0);
        }
        let rest = tokens.saturating_sub(self.prompt);
        let shortest = self.answers.iter().copied().min().unwrap_or(0);
        match self.answers.len() {
            0 | 1 => rest,
            _ if rest <= 2 * shortest => rest.div_ceil(2),
            _ => rest - shortest,
        }
    }
}

impl Preference {
    pub(super) fn new(form: PreferenceForm) -> Self {
        Self { form }
    }
}

impl Objective for Preference {
    fn reads(&self) -> &'static [ColumnName] {
        match self.form {
            PreferenceForm::Dpo | PreferenceForm::Reward => &[INPUTS, PARTS],
            PreferenceForm::Kto => &[INPUTS, PARTS, LABELS],
        }
    }

    fn columns(&self) -> Vec<ObjectiveColumn> {
        let list = |name| ObjectiveColumn {
            name,
            number: NumberType::Int32,
            per: ColumnUnit::List,
            fill: PaddingValues::Padding,
        };
        let label = ObjectiveColumn {
            name: RowColumn::Label,
            number: NumberType::Bool,
            per: ColumnUnit::Row,
            fill: PaddingValues::With(0),
        };
        match self.form {
            PreferenceForm::Dpo => {
                [RowColumn::PromptIds, RowColumn::ChosenIds, RowColumn::RejectedIds]
                    .map(list)
                    .into()
            }
            PreferenceForm::Reward => {
                [RowColumn::ChosenIds, RowColumn::RejectedIds].map(list).into()
            }
            PreferenceForm::Kto => {
                vec![list(RowColumn::PromptIds), list(RowColumn::CompletionIds), label]
            }
        }
    }

    fn size(&self, part: RowPart<'_>, _: u64) -> Option<PartSize> {
        let lengths = AnswerLengths::of(part.document);
        let tokens = lengths.row(lengths.most(part.length));
        Some(PartSize { tokens: tokens.max(1), targets: 0 })
    }

    fn longest(&self, document: Document<'_>, _: u32, _: u64, limits: RowLimits) -> Option<u32> {
        let lengths = AnswerLengths::of(document);
        let room = limits.tokens.saturating_sub(lengths.prompt);
        Some(if lengths.row(u32::MAX) <= limits.tokens {
            lengths.all()
        } else if room == 0 {
            0
        } else {
            lengths.within(room)
        })
    }

    fn learns(&self, part: RowPart<'_>) -> bool {
        part.length > AnswerLengths::of(part.document).prompt
    }

    fn make(&self, part: RowPart<'_>, _: u64, columns: &mut [ColumnValues]) -> u64 {
        let lengths = AnswerLengths::of(part.document);
        let most = lengths.most(part.length);
        let ids = part.document.column(INPUTS);
        let (prompt, mut rest) = ids.split_at(lengths.prompt as usize);
        let signed = |ids: &[u32]| ids.iter().map(|id| id.cast_signed()).collect::<Vec<_>>();
        let mut columns = columns.iter_mut();
        if self.form != PreferenceForm::Reward
            && let Some(column) = columns.next()
        {
            column.numbers.extend(signed(prompt));
        }
        let mut labels = 0;
        for (&answer, column) in lengths.answers.iter().zip(columns.by_ref()) {
            let (ids, after) = rest.split_at(answer as usize);
            rest = after;
            if self.form == PreferenceForm::Reward {
                column.numbers.extend(signed(prompt));
            }
            let kept = answer.min(most);
            column.numbers.extend(signed(&ids[..kept as usize]));
            labels += u64::from(kept);
        }
        if let Some(column) = columns.next() {
            let label = part.document.column(LABELS).first();
            column.numbers.extend(label.map(|label| label.cast_signed()));
        }
        labels
    }
}
