//! The values that a template computes with, and what Python and Jinja do with them.

pub(crate) mod arguments;
pub(crate) mod arithmetic;
pub(crate) mod attributes;
pub(crate) mod comparing;
pub(crate) mod cuts;
pub(crate) mod filters;
pub(crate) mod formatting;
pub(crate) mod hashing;
pub(crate) mod items;
pub(crate) mod key;
pub(crate) mod make;
pub(crate) mod markup;
pub(crate) mod methods;
pub(crate) mod predicates;
pub(crate) mod print;
pub(crate) mod search;
pub(crate) mod sort;
pub(crate) mod strftime;
pub(crate) mod text;
pub(crate) mod tojson;
pub(crate) mod value;
