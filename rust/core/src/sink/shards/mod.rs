//! Files of rows, and their names.

pub(super) mod begun_shards;
mod disk_file;
pub(super) mod finished_list;
pub(super) mod finished_list_lines;
pub(super) mod folder_layout;
pub(super) mod row_threads;
mod row_work;
pub(super) mod shard;
mod shard_file;
pub(super) mod shard_names;
pub(super) mod shard_size;
pub(super) mod shards_in_order;
#[cfg(test)]
pub(crate) mod simulated_rows;
