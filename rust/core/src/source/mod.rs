//! Reads inputs: finds their files, and cuts them into [`Block`]s of records.
//!
//! Each container has a file here ([`lines`], [`json`], [`cbor`], [`csv`], [`text`], [`mds`], [`parquet`], [`ipc`]),
//! and the compressions have one ([`compression`]).

mod background;
mod block;
mod blocks;
mod callers;
mod compression;
mod discovery;
pub(crate) mod extents;
pub(crate) mod formats;
mod input;
mod reindex;
mod sampling;
mod sizes;

pub(crate) use block::short;
pub use block::{Block, Cells, Fate, Raw, RawRecord};
pub use blocks::Blocks;
pub(crate) use blocks::Chooser;
pub use callers::memory::{GivenRecords, Memory};
pub use callers::reiterable::Reiterable;
pub(crate) use callers::reiterable::Values;
pub use compression::Compression;
pub use discovery::discover::discover;
pub use discovery::found::{FoundFiles, SourceFile};
pub(crate) use discovery::found::{Part, shared_folder};
pub(crate) use discovery::index::Index;
pub use formats::format::{Container, InputFormat};
pub use reindex::{Reindexed, reindex};
pub use sampling::sample::Sample;
