//! Reads inputs: finds their files, and cuts them into [`Block`]s of records.
//!
//! Each container has a file here ([`lines`], [`json`], [`cbor`], [`csv`], [`text`], [`mds`], [`parquet`], [`ipc`]),
//! and the compressions have one ([`compression`]).

mod background;
mod block;
mod blocks;
mod braces;
mod cbor;
mod chosen;
mod compression;
mod csv;
mod dataset;
mod discover;
mod foreign;
mod format;
mod found;
mod frame_lines;
mod globs;
mod index;
mod input;
mod ipc;
mod json;
pub(crate) mod json_field;
mod line_extent;
mod line_file;
mod lines;
mod mds;
mod memory;
mod outputs;
mod parquet;
pub(crate) mod parts;
mod pilot;
mod places;
pub(crate) mod position;
mod reindex;
mod reiterable;
mod remote;
mod rows;
mod sample;
mod sizes;
mod text;
mod through;
pub(crate) mod weigh;
mod windows;
mod zstd_frames;

pub(crate) use block::short;
pub use block::{Block, Cells, Fate, Raw, RawRecord};
pub use blocks::Blocks;
pub(crate) use blocks::Chooser;
pub use compression::Compression;
pub use discover::discover;
pub use format::{Container, InputFormat};
pub use found::{FoundFiles, SourceFile};
pub(crate) use found::{Part, shared_folder};
pub(crate) use index::Index;
pub use memory::{GivenRecords, Memory};
pub use reindex::{Reindexed, reindex};
pub use reiterable::Reiterable;
pub(crate) use reiterable::Values;
pub use sample::Sample;
