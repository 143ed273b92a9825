//! [`TurnMarkup`]: the texts with which a template begins and ends the assistant's turns.

use super::turn_end_texts::TurnEnds;

/// The texts around the text of the assistant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TurnMarkup {
    /// The texts before it, longest first: the generation prompt, or the part of it that real turns begin
    /// with.
    pub(crate) headers: Vec<String>,
    /// The texts after it.
    pub(crate) ends: TurnEnds,
    /// True if the turns have headers of their own although there is no generation prompt.
    pub(crate) unprompted: bool,
}
