//! Objects of the caller that the core asks: records, functions, file systems.

pub(super) mod filesystem;
pub(super) mod records;
pub(super) mod reiterable;
pub(super) mod transform;
pub(super) mod values_to_json;
