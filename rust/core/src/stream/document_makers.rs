//! [`DocumentMakers`]: the threads that read and tokenize the documents for the lanes.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use super::lane;
use super::lane::block_queues::BlockQueues;
use super::lane::lane_blocks::LaneBlocks;
use super::lane::packed_block::PackedBlock;
use super::lane::record_order::RecordOrder;
use crate::error::Result;
use crate::pipeline::ChosenBlocks;
use crate::util::control::Control;

/// The threads that make documents for the lanes.
pub(super) struct DocumentMakers<'m, 'w, 'a> {
    pub(super) queues: &'m BlockQueues<PackedBlock>,
    /// The walks of each lane, one for each pool.
    pub(super) walks: &'m [Mutex<LaneBlocks<'w, 'a>>],
    pub(super) orders: &'m [RecordOrder<'a>],
    pub(super) single: &'m ChosenBlocks<'a>,
    pub(super) control: &'m Control,
}

impl DocumentMakers<'_, '_, '_> {
    /// Runs `deliver` on this thread, with the documents that `threads` other threads make.
    pub(super) fn run<T>(
        &self,
        threads: usize,
        deliver: impl FnOnce(&mut dyn FnMut(usize) -> Result<Option<PackedBlock>>) -> Result<T>,
    ) -> Result<T> {
        let alone = RefCell::new(None);
        self.queues.served(
            threads,
            || {
                let mut work = self.single.worker();
                move |claim| self.make(claim, &mut work)
            },
            |has_workers| {
                let help = || {
                    let claim = if has_workers { None } else { self.queues.try_claim() };
                    let mut work = alone.borrow_mut();
                    let work = work.get_or_insert_with(|| self.single.worker());
                    claim.map(|claim| self.make(claim, work)).is_some()
                };
                deliver(&mut |feed| {
                    self.control.tick()?;
                    self.queues.take(feed, help)
                })
            },
        )
    }

    /// Makes the documents of the next block of a feed.
    fn make(
        &self,
        claim: lane::block_queues::FeedClaim,
        work: &mut impl FnMut(
            crate::source::Block,
            Option<Arc<crate::record::Shape>>,
            crate::pipeline::WantedRecords,
        ) -> Result<crate::pipeline::TokenizedBlock>,
    ) {
        let read = {
            let mut walk = self.walks[claim.feed].lock().unwrap_or_else(PoisonError::into_inner);
            self.control.tick().and_then(|()| walk.next()).and_then(|found| match found {
                None => Ok(None),
                // The caller's functions see the blocks of a lane in order.
                Some(found) => {
                    let block = self.single.transformed(found.block)?;
                    Ok(Some(lane::lane_blocks::LaneBlock { block, ..found }))
                }
            })
        };
        match read {
            Ok(None) => self.queues.nothing(claim),
            Err(error) => {
                self.queues.store_result(claim, Err(error));
                self.queues.was_read(claim, true);
            }
            Ok(Some(found)) => {
                self.queues.was_read(claim, false);
                let order = &self.orders[claim.feed % self.orders.len()];
                self.queues.store_result(
                    claim,
                    PackedBlock::of(found, order, self.single, work, self.control),
                );
            }
        }
    }
}
