//! The containers of records: one file or folder each.

pub(super) mod cbor;
pub(super) mod csv;
pub(super) mod format;
pub(super) mod ipc;
pub(super) mod json;
pub(crate) mod json_columns;
pub(super) mod lines;
pub(super) mod mds;
pub(super) mod parquet;
pub(crate) mod picture_json;
pub(super) mod row_reader;
pub(super) mod text;
pub(super) mod unread_lines;
