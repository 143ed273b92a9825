//! Records to text, and the parts of it that are trained.

pub(super) mod answers;
pub(super) mod arguments;
pub(crate) mod chat;
pub(crate) mod choices;
pub(super) mod controls;
pub(crate) mod formatted;
pub(crate) mod markers;
pub(super) mod ordinary;
pub(super) mod parts;
pub(crate) mod prompt_names;
pub(crate) mod renderer;
pub(super) mod text_weights;
pub(crate) mod trained_part;
