//! [`Wanted`]: what a run wants of a conversation besides its text, and whether recorded programs give it.

use std::sync::OnceLock;

/// What is wanted of a conversation besides its text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// Nothing.
    #[default]
    Text,
    /// What the assistant wrote.
    Spans,
    /// What the assistant wrote in its last turn.
    LastTurn,
    /// What the assistant wrote in which message, and where its turns end. Wanted of every conversation whose messages
    /// have weights.
    Turns,
    /// What completes the prompt. Wanted of every conversation of which some messages are a prompt.
    Completion,
}

impl Wanted {
    /// How many there are.
    pub(in crate::template) const COUNT: usize = 5;

    /// What is wanted of a conversation that has weights, or a prompt, where this is wanted of one that has neither.
    #[must_use]
    pub fn of(self, has_weights: bool, has_prompt: bool) -> Self {
        match self {
            _ if has_weights => Self::Turns,
            Self::Turns => Self::Turns,
            _ if has_prompt => Self::Completion,
            wanted => wanted,
        }
    }

    /// Whether what the assistant wrote has to be found for it.
    pub(in crate::template) fn needs_turns(self) -> bool {
        !matches!(self, Self::Text | Self::Completion)
    }
}

/// What was found of a template, by what is wanted of a conversation.
#[derive(Debug, Default)]
pub(in crate::template) struct RenderPaths(
    pub(in crate::template) [OnceLock<Result<(), &'static str>>; Wanted::COUNT],
);
