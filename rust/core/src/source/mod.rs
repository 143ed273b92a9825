//! Reads inputs: finds their files, and cuts them into [`Block`]s of records.
//!
//! Begin with [`discovery`], which finds the files, and [`Blocks`], which reads them one after the other. Each container has a
//! file in [`formats`]; a stream and a sample enter files in the middle by [`extents`].

mod background;
mod block;
mod blocks;
mod callers;
mod compression;
mod decompressed_input;
mod discovery;
pub(crate) mod extents;
pub(crate) mod formats;
mod index_lines;
mod input_blocks;
mod reindex;
mod sampling;
mod sizes;
mod unread_block;

pub(crate) use block::short;
pub use block::{Block, LineCells, RawContent, RawRecord, RecordChange};
pub use blocks::Blocks;
pub use callers::memory_records::{CallerRecords, MemoryRecords};
pub(crate) use callers::reiterable::CallerValues;
pub use callers::reiterable::Reiterable;
pub use compression::Compression;
pub use discovery::discover::discover;
pub(crate) use discovery::found::{FilePart, LineRange, shared_folder};
pub use discovery::found::{FoundFiles, SourceFile};
pub(crate) use discovery::index::FactIndex;
pub(crate) use extents::extent::FrameStart;
pub(crate) use extents::places::{is_line_file, line_of};
pub(crate) use formats::format::by_name as format_by_name;
pub use formats::format::{Container, InputFormat};
pub(crate) use input_blocks::ColumnChooser;
pub use input_blocks::InputBlocks;
pub(crate) use reindex::can_be_divided;
pub use reindex::{Reindexed, RewriteDestination, reindex};
pub use sampling::sample::Sample;
pub(crate) use sampling::sampled_blocks::SampledBlocks;
pub(crate) use sizes::BLOCK_BYTES;
pub use unread_block::UnreadBlock;
