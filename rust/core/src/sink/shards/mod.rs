//! Files of rows, and their names.

pub(super) mod arrangement;
mod disk;
mod file;
pub(super) mod lines;
pub(super) mod list;
pub(super) mod series;
pub(super) mod shard;
pub(super) mod threads;
