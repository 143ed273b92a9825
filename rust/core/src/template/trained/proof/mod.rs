//! Tries whether the cheaper search finds the turns that the definition finds.

pub(super) mod contexts;
pub(crate) mod forms;
pub(super) mod made_up;
pub(super) mod trust;
