//! Where batches go: memory, or files written beside their place and renamed, and the manifest that knows them.
//!
//! ```text
//! packed/
//! ├── .fastpack/            the work folder, until the job has finished
//! │   ├── lock              held by the run that works
//! │   ├── started.json      which job this is, and when it began
//! │   ├── shards            which of them are whole
//! │   ├── blocks            what the blocks came to that were tokenized so far
//! │   ├── train-00000.arrow
//! │   ├── manifest.json     which files are being placed, once all are whole
//! │   └── replaced.json     the manifest of the output that they replace, while it is removed
//! ├── train-00000.arrow     shards, in place once all of them are whole
//! ├── tokens.fastpack       what was in `blocks`, where it is kept to be packed again
//! ├── report.json
//! └── manifest.json         the last file to appear: with it, the folder is finished
//! ```
//!
//! With `hf_layout` the shards get the names that `datasets` gives them when they are placed, and beside them stand the
//! files that tell it of them.
//!
//! What a run leaves behind that did not end is where the next one goes on. Whatever that builds on has a hash, and is checked
//! first: the word of the job and the manifests are sealed text, each line of the list has a hash of all lines before it, and
//! shards and blocks are hashed again. No link is followed in the folder, nothing is written or renamed over a file that is
//! there, and nothing is removed but what a manifest lists and what has the hash that it says.

mod arrangement;
mod arrow;
mod cells;
mod discard;
mod disk;
mod failure;
mod folder;
mod jsonl;
mod leftovers;
mod lock;
mod manifest;
mod msgpack;
mod owned;
mod parquet;
mod placed;
mod series;
mod shard;
mod shard_list;
mod survey;
mod tables;

use ::arrow::record_batch::RecordBatch;

use crate::config::Split;
use crate::error::Result;

pub use discard::{discard, is_damaged};
pub use folder::{Folder, Opened, open};
pub use manifest::{Beside, File, Manifest, Tokens};
pub use survey::{Kept, kept};
pub use tables::Tables;

/// What takes the rows of a run, one split after the other.
pub trait Sink {
    /// How many rows it has already, of a run that was stopped. [`Sink::write`] goes on behind them.
    fn rows(&self) -> u64;

    /// The rows from now on are those of `split`; before, they are those to train on.
    fn begin_split(&mut self, split: Split) -> Result<()>;

    /// Takes the next rows. Columns are as [`crate::assemble`] makes them.
    fn write(&mut self, batch: &RecordBatch) -> Result<()>;
}
