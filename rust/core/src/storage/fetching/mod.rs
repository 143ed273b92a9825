//! The bytes of an object, fetched by ranges.
//!
//! | module | |
//! |---|---|
//! | [`object`] | an object as it was when it was found, and what is being fetched of it |
//! | [`resumed_requests`] | as many requests as it takes: a body that breaks off is resumed at its offset |
//! | [`in_order`] | a file from its beginning, several requests ahead |
//! | [`table_parts`] | the columns of a table, fetched ahead |

pub(super) mod in_order;
pub(super) mod object;
pub(super) mod resumed_requests;
pub(super) mod table_parts;
