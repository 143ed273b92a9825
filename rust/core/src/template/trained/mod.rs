//! Finds the trained parts of a conversation and the texts that they stand in: turns of the assistant, or a completion.
//!
//! [`rule`] defines what is trained of a turn. [`learned`] searches for the same in one text, which takes less, where [`proof`] has
//! shown that it finds the same. [`generation_blocks`] has the turns that a template marks itself. The options of the caller choose among the parts: `pipeline::documents::rendering::train_on`.

pub(super) mod completion;
pub(super) mod documents;
mod dropped_reasoning;
mod generation_blocks;
pub(crate) mod learned;
pub(super) mod part_finder;
pub(super) mod partly_trained_turns;
pub(crate) mod proof;
pub(super) mod rule;
mod stand_in_words;
pub(super) mod turn_notes;
