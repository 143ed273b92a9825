//! The places where texts are cut into pieces.

pub(super) mod alphanumeric;
pub(super) mod cut_boundaries;
pub(super) mod edges;
pub(super) mod independent_parts;
pub(super) mod windows;
