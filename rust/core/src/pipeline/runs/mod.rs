//! The public functions: each puts the stages together for one kind of input and output.
//!
//! [`pack_files`] packs to memory, and with [`pack_memory`] what Python's `pack_records` and `pack_table` take. [`pack_dir`] packs
//! into a folder, which [`output_folder`] opens and finishes; [`append`] adds files to one, [`repack`] packs its kept tokens again.
//! [`scan`] stops at the plan. `cache` keeps tokens between calls; `input_hashes` hashes the inputs.

pub(crate) mod append;
mod cache_entry;
pub(in crate::pipeline) mod input_hashes;
mod known_files;
pub(crate) mod output_folder;
pub(crate) mod pack_dir;
pub(crate) mod pack_files;
pub(crate) mod pack_memory;
pub(crate) mod packed_folder;
mod per_file;
mod records;
pub(crate) mod reindex;
pub(crate) mod repack;
pub(crate) mod scan;
mod time_estimate;
