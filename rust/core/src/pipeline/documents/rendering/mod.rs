//! Records to text, and the parts of it that are trained.
//!
//! [`source_renderer`] renders a record of any kind; [`train_on`] chooses the trained part by the options, among those that
//! `template::trained` finds; [`prompt_without_template`] chooses the prompt format of a request; [`text_weights`] holds the weights of a
//! text. The others each do one thing for these.

pub(super) mod answers;
pub(super) mod arguments;
pub(crate) mod chat;
pub(crate) mod control_tokens;
pub(super) mod parts;
pub(crate) mod pictures;
pub(crate) mod prompt_names;
pub(super) mod prompt_without_template;
pub(crate) mod record_failure;
pub(crate) mod source_renderer;
pub(super) mod text_weights;
pub(crate) mod train_on;
pub(crate) mod turn_choices;
