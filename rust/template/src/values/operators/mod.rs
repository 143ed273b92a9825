//! Arithmetic, comparison and order of values.

pub(crate) mod arithmetic;
pub(crate) mod comparing;
pub(crate) mod sort;
