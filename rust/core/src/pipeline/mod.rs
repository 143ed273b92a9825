//! Puts the stages together for a job, in their order and on its threads.
//!
//! | folder | |
//! |---|---|
//! | [`documents`] | from blocks of records to documents, in input order whatever the threads |
//! | [`rows`] | from documents to rows, as soon as the strategy allows |
//! | [`statistics`] | the counts on the way, and the content of the report |
//! | [`groups`] | a job that is cut into groups of inputs, which several processes pack |
//! | [`runs`] | the public functions: each puts the stages together for one kind of call |
//!
//! [`stream`](crate::stream) does so for endless rows, with the same modules.

pub(crate) mod documents;
mod groups;
pub(crate) mod job;
#[cfg(test)]
mod many_cores;
pub(crate) mod rows;
mod runs;
pub(crate) mod statistics;

pub use crate::storage::{HubAccess, PictureContent, PictureStorage, RemotePictures};
pub use documents::custom_objective::DocumentFunction;
pub use documents::filter_and_map::{
    PictureFunction, RecordFilter, RecordMapping, RowFilter, RowMapping, Transform,
};
pub use documents::held_pictures::held_picture;
pub use documents::rendering::chat::{Chat, chat, render};
pub use groups::status::{GroupCount, Status, status, status_of_manifest};
pub use job::{Job, JobTemplate};
pub use runs::append::append_dir;
pub use runs::pack_dir::{list_groups, pack_dir, pack_group, write_memory};
pub use runs::pack_files::pack_files;
pub use runs::pack_memory::pack_memory;
pub use runs::packed_folder::{HeldFile, ListedFile, PackedFolder, usual_cache_size};
pub use runs::reindex::reindex;
pub use runs::repack::repack;
pub use runs::scan::{Fit, Lost, Scan, TemplateScan, scan};

pub(crate) use documents::chosen_blocks::{ChosenBlocks, FileHeads, WantedRecords};
pub(crate) use documents::tokenized_blocks::TokenizedBlock;
pub(crate) use documents::validation_split::{SplitSide, SplitThreshold};
pub(crate) use rows::document_cutter::DocumentCutter;
pub(crate) use rows::row_packer::{ClosedRow, RowPacker};
pub(crate) use rows::validation_draw::check_split;
pub(crate) use runs::output_folder::made_by;
pub(crate) use statistics::input_facts::InputFacts;
pub(crate) use statistics::packed_counts::PackedCounts;
