//! Where batches go: files written beside their place and renamed, and the manifest that knows them.
//!
//! ```text
//! packed/
//! ├── .fastpack/            the work folder, while a run writes: lock, started.json, shards not yet whole
//! ├── train-00000.arrow     shards, in place once all of them are whole
//! ├── report.json
//! └── manifest.json         the last file to appear: with it, the folder is finished
//! ```

mod arrow;
mod cells;
mod folder;
mod jsonl;
mod lock;
mod manifest;
mod msgpack;
mod parquet;
mod shard;
mod survey;

pub use folder::{Folder, Opened, open};
pub use manifest::{File, Manifest};
