//! Files of the local disk: which are opened, hashed, replaced and removed, and how.

pub(crate) mod checksummed_frames;
pub(crate) mod expected_hash;
pub(crate) mod file_hash;
pub(crate) mod file_lock;
pub mod hex_hash;
pub mod inside_folder;
pub(crate) mod local_file;
pub(crate) mod read_ahead;
pub(crate) mod regular;
pub(crate) mod removal;
pub(crate) mod retry;
pub mod sealed;
pub(crate) mod writeback;
