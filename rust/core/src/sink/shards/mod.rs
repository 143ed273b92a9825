//! Files of rows, and their names.

pub(super) mod arrangement;
mod disk;
mod file;
pub(super) mod finished_list;
pub(super) mod finished_list_lines;
mod row_work;
pub(super) mod shard;
pub(super) mod shard_names;
pub(super) mod shard_size;
#[cfg(test)]
pub(crate) mod simulated_rows;
pub(super) mod threads;
