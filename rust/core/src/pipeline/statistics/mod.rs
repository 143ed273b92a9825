//! The counts of a run, and the facts of its report.

pub(crate) mod input_facts;
pub(crate) mod packed_counts;
