//! Files to read and folders to write: on the local disk, in buckets, on web servers.
//!
//! A [`Location`] is opened to be read from its beginning, by ranges or in parts. A file of the local disk is opened as
//! such. The bytes of an object are fetched by ranged requests on the threads of a [`Session`], which lives as long as
//! the call.

mod address;
mod buckets;
pub(crate) mod cache;
pub(crate) mod cancelled_or_changed;
mod fetching;
mod find_objects;
mod http;
mod location;
mod object_stat;
mod remote_pictures;
mod request_threads;
mod session;
#[cfg(test)]
mod tests;

pub(crate) use address::{is_url, is_web, public};
pub(crate) use buckets::bucket_folder::{BucketFolder, LOCK};
pub(crate) use buckets::lease::{Lease, SeenLocks};
pub(crate) use buckets::objects::Version;
pub(crate) use buckets::upload::FileToUpload;
pub(crate) use find_objects::{FoundObjects, Outputs};
pub(crate) use location::{Location, OpenFile, RangeFile, RangeFileReader, version_of};
pub(crate) use remote_pictures::remote_url;
pub use remote_pictures::{HubAccess, PictureContent, PictureStorage, RemotePictures};
pub(crate) use session::Session;
