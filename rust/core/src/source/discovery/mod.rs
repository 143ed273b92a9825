//! Finds the files of the inputs.

pub(super) mod braces;
pub(super) mod data_files;
pub(super) mod dataset_folder;
pub(super) mod discover;
pub(super) mod found;
pub(super) mod globs;
pub(super) mod index;
pub(super) mod outputs;
pub(super) mod remote;
