//! The counts of a run, and the facts of its report.

pub(crate) mod books;
pub(crate) mod input_facts;
