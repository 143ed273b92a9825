//! What is counted on the way from records to rows, and what the report says of a run.

pub(crate) mod about;
pub(crate) mod books;
