//! Parquet files. [`bounded_pages`] checks the lengths in their pages before the library reserves memory for them.
//!
//! [`whole_file`] reads a file from its first row on, [`row_groups`] a part of it.

mod bounded_pages;
mod chosen_columns;
mod file_metadata;
mod row_groups;
mod whole_file;

pub(crate) use file_metadata::codec_and_metadata;
pub(crate) use row_groups::{groups, open_group};
pub(crate) use whole_file::open;
