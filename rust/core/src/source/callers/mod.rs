//! Records that the caller holds: tables, values of an iterable.

pub(super) mod arrow_rules;
pub(super) mod memory;
pub(super) mod reiterable;
