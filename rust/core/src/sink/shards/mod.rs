//! Files of rows, and their names.

pub(super) mod arrangement;
pub(super) mod disk;
pub(super) mod lines;
pub(super) mod list;
pub(super) mod series;
pub(super) mod shard;
