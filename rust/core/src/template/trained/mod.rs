//! Finds the trained parts of a conversation and the texts that they stand in: turns of the assistant, or a completion.

pub(super) mod completion;
pub(super) mod derive;
pub(super) mod documents;
pub(super) mod ending;
pub(super) mod forms;
pub(super) mod header;
mod histories;
mod labels;
mod made_up;
pub(super) mod marks;
pub(super) mod markup;
pub(super) mod noted;
pub(super) mod part_finder;
pub(super) mod parted;
pub(super) mod rule;
pub(super) mod spans;
mod thought_marks;
mod trust;
pub(super) mod turns;
