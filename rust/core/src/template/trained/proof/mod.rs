//! Tries whether the cheaper search finds the turns that the definition finds.

pub(super) mod contexts;
pub(super) mod form_sample;
pub(crate) mod forms;
pub(super) mod trust;
