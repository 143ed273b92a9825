//! [`StartingGroups`]: the groups that one of several calls begins with.

use std::num::NonZeroU32;

use crate::error::{Error, Result};
use crate::util::wording::{message, set};

/// The groups that one of several calls begins with: every `world_size`th, from group `rank` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartingGroups {
    /// The number of the call, from 0.
    rank: u32,
    /// The number of calls.
    world_size: NonZeroU32,
}

impl StartingGroups {
    /// The turn of call `rank` of `world_size`; fails with [`Error::Option`] if there is no such call.
    pub fn new(rank: u32, world_size: u32) -> Result<Self> {
        match NonZeroU32::new(world_size) {
            Some(world_size) if rank < world_size.get() => Ok(Self { rank, world_size }),
            Some(world_size) => {
                let reason = message![
                    format!("is {rank}, but must be below "),
                    set("groups.world_size", u64::from(world_size.get())),
                ];
                Err(Error::option("groups.rank", reason))
            }
            None => Err(Error::option("groups.world_size", "is 0, but must be at least 1")),
        }
    }

    /// True if the turn includes a group.
    pub(crate) fn includes(self, group: usize) -> bool {
        group % self.world_size.get() as usize == self.rank as usize
    }

    /// True if there are several calls.
    pub(crate) fn is_shared(self) -> bool {
        self.world_size.get() > 1
    }

    /// The number of the call.
    pub(crate) fn rank(self) -> u32 {
        self.rank
    }
}
