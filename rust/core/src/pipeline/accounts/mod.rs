//! The counts of a run, and the facts of its report.

pub(crate) mod about;
pub(crate) mod books;
