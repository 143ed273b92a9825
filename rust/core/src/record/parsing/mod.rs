//! JSON and CBOR to values, and fields of a line of JSON without values.

pub(super) mod cbor;
pub(super) mod fault;
pub(super) mod json;
pub(super) mod line_cursor;
pub(super) mod replay_reader;
pub(super) mod value_access;
pub(super) mod write;
