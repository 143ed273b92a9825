//! [`WantedSpans`]: the results that a run needs of a conversation besides its text.

use std::sync::OnceLock;

use crate::config::Turns;

/// The results that a run needs of a conversation besides its text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WantedSpans {
    /// The text alone.
    #[default]
    Text,
    /// The spans that the assistant wrote.
    Spans,
    /// The spans that the assistant wrote in its last turn.
    LastTurn,
    /// The assistant's turns with their messages and ends. Wanted of every conversation whose messages have
    /// weights.
    Turns,
    /// The completion of the prompt. Wanted of every conversation with a prompt of messages.
    Completion,
}

impl WantedSpans {
    /// The number of variants.
    pub(in crate::template) const COUNT: usize = 5;

    /// Adapts the wanted spans of a plain conversation to one that may have weights or a prompt.
    #[must_use]
    pub fn of(self, has_weights: bool, has_prompt: bool) -> Self {
        match self {
            _ if has_weights => Self::Turns,
            Self::Turns => Self::Turns,
            _ if has_prompt => Self::Completion,
            wanted => wanted,
        }
    }

    /// True if it needs the assistant's spans.
    pub(in crate::template) fn needs_turns(self) -> bool {
        !matches!(self, Self::Text | Self::Completion)
    }
}

/// The results of a template's trials, one for each [`WantedSpans`] and each choice of [`Turns`].
#[derive(Debug, Default)]
pub(in crate::template) struct TrialResults(
    [[OnceLock<Result<(), &'static str>>; Turns::WORDS.len()]; WantedSpans::COUNT],
);

impl TrialResults {
    /// The result for one of them.
    pub(in crate::template) fn of(
        &self,
        wanted: WantedSpans,
        choice: Turns,
    ) -> &OnceLock<Result<(), &'static str>> {
        &self.0[wanted as usize][choice as usize]
    }
}
