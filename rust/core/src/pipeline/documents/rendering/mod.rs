//! Records to text, and the parts of it that are trained.
//!
//! [`renderer`] renders a record of any kind; [`train_on`] chooses the trained part by the options, among those that
//! `template::trained` finds; [`text_weights`] holds the weights of a text. The others each do one thing for these.

pub(super) mod answers;
pub(super) mod arguments;
pub(crate) mod chat;
pub(crate) mod failure;
pub(super) mod find_control_tokens;
pub(crate) mod markers_in_texts;
pub(crate) mod missing_markers;
pub(super) mod parts;
pub(crate) mod pictures;
pub(crate) mod prompt_names;
pub(crate) mod renderer;
pub(super) mod special_in_text;
pub(super) mod text_weights;
pub(crate) mod train_on;
pub(crate) mod turn_choices;
