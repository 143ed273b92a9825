//! Refusals of a state: one of another run, or of another rank among those that share lanes.

use std::path::Path;

use super::run_identity;
use super::stream_state::{StreamState, refused};
use crate::config::identity::Identity;
use crate::error::{Error, Result};
use crate::stream::stream_options::RankRows;

/// The most lanes named in one message.
const NAMED: usize = 8;

impl StreamState {
    /// Fails for the state of one of several ranks that share lanes, in another rank: the rows would be those that follow, and
    /// the counts would not.
    pub(in crate::stream) fn check_rank(&self, share: RankRows) -> Result<()> {
        let of = RankRows {
            lanes: self.lanes,
            batch: self.batch_size,
            rank: 0,
            world_size: self.world_size,
        };
        match self.rank {
            Some(rank)
                if of.shares_lanes()
                    && (rank, self.world_size) != (share.rank, share.world_size) =>
            {
                Err(refused(format!(
                    "is of rank {rank} of {} alone; join the states of all ranks by `merge_state_dicts`",
                    self.world_size
                )))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn missing(&self, lanes: &[usize]) -> Error {
        let named: Vec<String> = lanes.iter().take(NAMED).map(ToString::to_string).collect();
        let more = if lanes.len() > NAMED { " and others" } else { "" };
        refused(format!(
            "has no lane {}{more}, which this rank goes on with; join the states of all {} ranks by \
             `merge_state_dicts`",
            named.join(", "),
            self.world_size
        ))
    }

    /// Fails if the identity of the state's run is not `identity`.
    pub(in crate::stream) fn check(
        &self,
        identity: &Identity,
        strict: bool,
        dir: Option<&Path>,
    ) -> Result<()> {
        let was = self.identity.as_ref().filter(|_| strict);
        match was.and_then(|was| run_identity::differences(was, identity, dir)) {
            None => Ok(()),
            Some(differences) => {
                Err(refused(format!("is of another run; what differs: {differences}")))
            }
        }
    }
}
