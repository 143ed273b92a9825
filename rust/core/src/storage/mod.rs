//! Files to read and folders to write: on the local disk, in buckets, on web servers.
//!
//! A [`Location`] is opened to be read from its beginning, by ranges or in parts. A file of the local disk is opened as
//! such. The bytes of an object are fetched by ranged requests on the threads of a [`Session`], which lives as long as
//! the call.

mod address;
mod again;
mod backoff;
mod blocks;
mod bucket;
mod buckets;
mod lease;
mod local;
mod location;
mod object;
mod objects;
mod ranged;
mod reader;
mod requests;
#[cfg(test)]
mod s3_server;
mod search;
mod service;
mod session;
mod stat;
pub(crate) mod stopped;
mod target;
mod tasks;
#[cfg(test)]
mod tests;
mod unfinished;
mod upload;
mod web;

pub(crate) use address::{is_url, public};
pub(crate) use lease::{Lease, SeenLocks};
pub(crate) use location::{Location, OpenFile, RangeFile, RangeFileReader};
pub(crate) use objects::{Version, WrittenObject};
pub(crate) use search::{Named, Outputs};
pub(crate) use session::Session;
pub(crate) use target::{Entry, LOCK, Target};
