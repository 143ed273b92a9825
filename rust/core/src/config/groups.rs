//! [`Turn`]: the groups that one of several calls begins with; and the options that do not go with groups.

use std::num::NonZeroU32;

use super::{Output, RowColumn};
use crate::error::{Error, Result};
use crate::wording::{message, set};

/// The groups that one of several calls begins with: every `world_size`th, from group `rank` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The number of the call, from 0.
    rank: u32,
    /// The number of calls.
    world_size: NonZeroU32,
}

impl Turn {
    /// The turn of call `rank` of `world_size`; fails with [`Error::Option`] if there is no such call.
    pub fn new(rank: u32, world_size: u32) -> Result<Self> {
        match NonZeroU32::new(world_size) {
            Some(world_size) if rank < world_size.get() => Ok(Self { rank, world_size }),
            Some(world_size) => {
                let reason = message![
                    format!("is {rank}, but must be below "),
                    set("world_size", u64::from(world_size.get())),
                ];
                Err(Error::option("rank", reason))
            }
            None => Err(Error::option("world_size", "is 0, but must be at least 1")),
        }
    }

    /// Whether the turn includes a group.
    pub(crate) fn includes(self, group: usize) -> bool {
        group % self.world_size.get() as usize == self.rank as usize
    }

    /// Whether there are several calls.
    pub(crate) fn is_shared(self) -> bool {
        self.world_size.get() > 1
    }

    /// The number of the call.
    pub(crate) fn rank(self) -> u32 {
        self.rank
    }
}

impl Output {
    /// Checks that the options go with groups, and that only a job of groups has several calls.
    pub(super) fn validate_groups(&self, columns: &[RowColumn]) -> Result<()> {
        if self.group_bytes.is_none() {
            if self.turn.is_some() {
                let reason = "is given, but without group_size the job is one group, which one process packs; \
                              give group_size too, such as \"4GB\"";
                return Err(Error::option("rank", reason));
            }
            return Ok(());
        }
        if self.per_file {
            let reason = message![
                "cannot be given with ",
                set("per_file", true),
                ", which packs each input by itself; leave one of them out",
            ];
            return Err(Error::option("group_size", reason));
        }
        if columns.contains(&RowColumn::Group) {
            let reason = "names `group`, which counts the steps of rows that are packed together; leave it out with \
                          group_size: row `r` of the files belongs to step `r // balance_ranks`";
            return Err(Error::option("columns", reason));
        }
        Ok(())
    }
}
