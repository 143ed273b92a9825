//! The values that a template computes with, and their operations in Python and Jinja.

pub(crate) mod arguments;
pub(crate) mod attributes;
pub(crate) mod filters;
pub(crate) mod hashing;
pub(crate) mod items;
pub(crate) mod key;
pub(crate) mod make;
pub(crate) mod methods;
pub(crate) mod operators;
pub(crate) mod predicates;
pub(crate) mod printing;
pub(crate) mod texts;
pub(crate) mod value;
