//! [`TurnMarkup`]: the texts with which a template begins and ends the assistant's turns.

use super::ending::Ends;

/// The texts around what the assistant writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::template) struct TurnMarkup {
    /// What stands before it, longest first: the generation prompt, or what real turns share with it.
    pub(in crate::template) headers: Vec<String>,
    /// What stands after it.
    pub(in crate::template) ends: Ends,
    /// Whether the headers are the turn's own though no generation prompt writes them.
    pub(in crate::template) unprompted: bool,
}
