//! [`Note`]: the facts about kept records that reports count, each with its warning.

use serde::{Deserialize, Serialize};

/// A fact about a kept record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// A prompt is formatted already, and is wrapped again.
    FormattedPrompts,
    /// An answer ends in an end-of-text token, inside of its turn.
    EndedAnswers,
    /// Its contents were lists of texts, which were joined because the chat template refuses lists.
    JoinedParts,
    /// A control token of the tokenizer stands in a text of a user or a tool.
    ControlTokens,
}

/// Some notes of one record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoteSet(u16);

impl NoteSet {
    /// Adds a note if it holds.
    pub fn set(&mut self, note: Note, holds: bool) {
        self.0 |= u16::from(holds) << note as u16;
    }

    /// The set of one note if it holds, else of none.
    #[must_use]
    pub fn of(note: Note, holds: bool) -> Self {
        let mut set = Self::default();
        set.set(note, holds);
        set
    }

    /// The notes of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether a note holds.
    pub fn has(self, note: Note) -> bool {
        self.0 & 1 << note as u16 != 0
    }

    /// Its notes.
    pub fn iter(self) -> impl Iterator<Item = Note> {
        Note::ALL.into_iter().filter(move |note| self.has(*note))
    }
}

impl Note {
    /// All notes, in the order of their warnings.
    pub const ALL: [Self; 4] =
        [Self::FormattedPrompts, Self::EndedAnswers, Self::JoinedParts, Self::ControlTokens];

    /// The warning about `records` with this note, the `first` of them at a place.
    pub(crate) fn warning(self, records: &str, is_one: bool, first: &str) -> String {
        let have = if is_one { "has" } else { "have" };
        match self {
            Self::FormattedPrompts => format!(
                "{records} {have} a prompt that is formatted already, which is wrapped again{first}: it begins with a role \
                 marker, or ends as `### Response:` does; the fields `prompt` and `completion` are joined as they are, \
                 and a `map` can take the markers out"
            ),
            Self::EndedAnswers => format!(
                "{records} {have} an answer that ends in an end-of-text token, and the chat template ends the turn \
                 after it{first}; a `map` can take the token out"
            ),
            Self::JoinedParts => format!(
                "{records} {have} content in lists of texts, which the chat template refuses: the texts are joined{first}; \
                 a `map` can join them in another way"
            ),
            Self::ControlTokens => format!(
                "{records} {have} a control token of the tokenizer in a text of a user or a tool{first}, which becomes \
                 that token, as `transformers` encodes it; a `map` can take it out"
            ),
        }
    }
}
