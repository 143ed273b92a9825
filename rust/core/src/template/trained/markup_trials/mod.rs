//! Tries whether the cheaper search finds the turns that the definition finds.

pub(super) mod form_sample;
pub(super) mod message_contexts;
pub(super) mod trial;
pub(crate) mod turn_forms;
