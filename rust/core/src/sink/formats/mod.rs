//! The formats of shards.

pub(super) mod arrow;
pub(super) mod cells;
pub(super) mod jsonl;
pub(super) mod msgpack;
pub(super) mod parquet;
