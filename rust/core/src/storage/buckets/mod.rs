//! The object stores of the crate `object_store`: S3, Google and Azure.
//!
//! [`open_bucket`] makes the client of a store, with its [options](bucket_options); [`bucket_folder`] is an output folder in one.

pub(super) mod bucket_folder;
mod bucket_options;
pub(super) mod lease;
pub(super) mod listing;
mod object_path;
pub(super) mod objects;
mod open_bucket;
mod store_errors;
pub(super) mod unfinished;
pub(super) mod upload;

pub(super) use bucket_options::copy_options;
pub(super) use object_path::path_of;
pub(super) use open_bucket::{open, open_s3};
pub(super) use store_errors::to_io_error;

#[cfg(test)]
pub(super) mod s3_server_for_tests;
