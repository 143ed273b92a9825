//! Normalizers.

pub(super) mod bert;
pub(super) mod chain;
pub(super) mod charsmap;
pub(super) mod compose;
pub(super) mod normalize;
pub(super) mod normalized;
