//! [`Groups`]: the groups of a job that several processes pack, each group in an output folder of its own.
//!
//! ```text
//! .fastpack/
//! ├── started.json          the job
//! ├── lock                  shared by the processes that pack groups, held alone by the one that gathers them
//! └── groups/
//!     ├── 00000-tokens/     the tokens of a group, where rows have to wait for all groups
//!     ├── 00000-rows/       the rows of a group, packed alone
//!     ├── 00000-rows.lock   held by the process that packs the group
//!     ├── 00000-rows.json   the record of a packed group: it is written after its files
//!     ├── 00001-failed.json the error that ended the last run of a group
//!     └── decided.json      the decisions of the job, after all groups are read
//! ```
//!
//! Whoever holds the lock of a group packs it. The lock of a process that dies is free again, so any process may take the group, and
//! resumes its files. Where the files and records lie is the matter of a [`JobStore`](crate::sink::store::job_store::JobStore).
//!
//! Begin with [`job_groups`].

pub(super) mod group_files;
pub(super) mod group_states;
mod job_groups;
pub(super) mod packed_group;

pub use job_groups::{Groups, join};
