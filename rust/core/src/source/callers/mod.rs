//! Records that the caller holds: tables, values of an iterable.

pub(super) mod arrow_rules;
pub(super) mod memory_records;
pub(super) mod reiterable;
