//! Values to text.

pub(crate) mod formatting;
pub(crate) mod markup;
pub(crate) mod print;
pub(crate) mod strftime;
pub(crate) mod tojson;
