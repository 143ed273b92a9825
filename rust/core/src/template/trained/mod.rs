//! Finds the trained parts of a conversation and the texts that they stand in: turns of the assistant, or a completion.

pub(super) mod completion;
pub(super) mod documents;
mod histories;
pub(crate) mod learned;
pub(super) mod noted;
pub(super) mod part_finder;
pub(super) mod parted;
pub(crate) mod proof;
pub(super) mod rule;
mod search_words;
