//! Finds the trained parts of a conversation and the texts that they stand in: turns of the assistant, or a completion.
//!
//! [`rule`] defines what is trained of a turn. [`turn_markup`] searches for the same in one text, which takes less, where [`markup_trials`] has
//! shown that it finds the same. [`generation_blocks`] has the turns that a template marks itself. The options of the caller choose among the parts: `pipeline::documents::rendering::train_on`.

pub(super) mod completion;
mod dropped_reasoning;
mod generation_blocks;
pub(crate) mod markup_trials;
pub(super) mod part_finder;
pub(super) mod partly_trained_turns;
pub(super) mod rule;
mod stand_in_words;
pub(crate) mod turn_markup;
pub(super) mod turn_notes;
pub(super) mod turn_texts;
