//! [`block_cache`]: fetched bytes on the local disk, up to a bound: blocks of files, and whole files (`files`).
//!
//! Each block holds the bytes of one request, its own name and a hash of both. Its name is a hash of the object's name, etag
//! and range, so another content has another name. The files used least recently are removed first: only those that carry their
//! own name, in a folder with the marker of fastpack.

mod block_cache;
mod eviction;
pub(crate) mod files;
mod lock_record;
pub(crate) mod remote_folder;

pub(crate) use block_cache::{BlockCache, usual_size};
