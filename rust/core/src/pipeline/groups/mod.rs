//! A job that is cut into groups of inputs, each packed alone, by any number of processes.
//!
//! The output depends on the inputs and options alone: groups are cut by the sizes of the inputs, and put together
//! in their order. Three decisions about the job are made once, after all groups are read: the documents that are
//! set aside, if too much is lost, and the rows that ranks share at the end.

mod gather;
mod group;
mod group_inputs;
mod group_result;
mod run_groups;
pub(in crate::pipeline) mod status;

pub(in crate::pipeline) use run_groups::{GroupedOutput, listed, pack, pack_one};
