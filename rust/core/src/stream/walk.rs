//! [`Walk`]: the blocks of one lane, in order, from any place on.

use std::collections::VecDeque;
use std::sync::Arc;

use super::order::{Address, Dealt, Order};
use super::rounds::{Rounds, round_of};
use crate::control::Control;
use crate::error::Result;
use crate::pipeline::{FileHeads, SingleBlocks};
use crate::record::Shape;
use crate::source::Block;
use crate::source::position::{Extent, ExtentBlocks};

/// The records of a block that are packed, by their indices in the order of the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Chosen {
    /// The records from this index on.
    From(u64),
    /// The records at these indices, ascending: they are in open rows.
    Only(Vec<u64>),
}

/// A block of a lane.
pub(super) struct Found {
    pub(super) address: Address,
    pub(super) extent: Extent,
    pub(super) chosen: Chosen,
    /// The number of the first record in its file, from 0, if records are numbered.
    pub(super) first_record: u64,
    pub(super) block: Block,
    pub(super) shape: Option<Arc<Shape>>,
}

/// The files of a run, and the parts that a walk needs to read them.
#[derive(Clone, Copy)]
pub(super) struct Files<'w, 'a> {
    pub(super) heads: &'w FileHeads<'a>,
    pub(super) single: &'w SingleBlocks<'a>,
    pub(super) control: &'w Control,
}

/// The blocks of one lane, in its order.
pub(super) struct Walk<'w, 'a> {
    order: &'w Order<'a>,
    /// The records that the caller gives, if the pool is no files.
    rounds: Option<&'w Rounds<'a>>,
    files: Files<'w, 'a>,
    lane: usize,
    /// The number of epochs; endless if `None`.
    epochs: Option<u64>,
    /// Blocks with documents of open rows, which are read again first.
    again: VecDeque<(Address, Vec<u64>)>,
    /// The next block, and the place of its first record.
    next: (Address, u64),
    /// Whether the lane is known to read a block in each epoch.
    reads: bool,
    entered: Option<Entered>,
    /// The extent before, whose file the next one may be of.
    before: Option<ExtentBlocks>,
}

/// An extent that is being read.
struct Entered {
    /// The address of its next block.
    at: Address,
    dealt: Arc<Dealt>,
    extent: Extent,
    /// The number of the next record in its file, if records are numbered.
    record: u64,
    blocks: ExtentBlocks,
    shape: Option<Arc<Shape>>,
}

impl<'w, 'a> Walk<'w, 'a> {
    /// The blocks from `next` on, after those of `again` in ascending order.
    pub(super) fn new(
        (order, rounds): (&'w Order<'a>, Option<&'w Rounds<'a>>),
        files: Files<'w, 'a>,
        lane: usize,
        epochs: Option<u64>,
        again: VecDeque<(Address, Vec<u64>)>,
        next: (Address, u64),
    ) -> Self {
        let reads = next != (Address::default(), 0);
        Self { order, rounds, files, lane, epochs, again, next, reads, entered: None, before: None }
    }

    /// The next block; `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<Found>> {
        if let Some((address, places)) = self.again.pop_front() {
            let found = self.go_to(address)?;
            let found = found.map(|found| Found { chosen: Chosen::Only(places), ..found });
            return match found {
                Some(found) => Ok(Some(found)),
                // The lane reports the missing documents of this block.
                None => self.next(),
            };
        }
        loop {
            let (address, place) = self.next;
            if self.epochs.is_some_and(|epochs| address.epoch >= epochs) {
                return Ok(None);
            }
            if self.rounds.is_some() {
                if let Some(found) = self.go_to(address)? {
                    self.reads = true;
                    self.next = (Address { block: address.block + 1, ..address }, 0);
                    return Ok(Some(Found { chosen: Chosen::From(place), ..found }));
                }
                if !std::mem::take(&mut self.reads) {
                    return Ok(None);
                }
                self.next = (Address { epoch: address.epoch + 1, ..Address::default() }, 0);
                continue;
            }
            if address.pass >= self.order.passes() {
                if !self.reads {
                    return Ok(None);
                }
                self.reads = false;
                self.next = (Address { epoch: address.epoch + 1, ..Address::default() }, 0);
                continue;
            }
            let Some(dealt) = self.dealt(&address)? else {
                let Address { epoch, pass, .. } = address;
                self.next = (Address { epoch, pass: pass + 1, ..Address::default() }, 0);
                continue;
            };
            if address.extent >= dealt.of_lane(self.lane).len() as u64 {
                self.next =
                    (Address { portion: address.portion + 1, extent: 0, block: 0, ..address }, 0);
                continue;
            }
            if let Some(found) = self.go_to(address)? {
                self.reads = true;
                self.next = (Address { block: address.block + 1, ..address }, 0);
                return Ok(Some(Found { chosen: Chosen::From(place), ..found }));
            }
            self.before = self.entered.take().map(|entered| entered.blocks);
            self.next = (Address { extent: address.extent + 1, block: 0, ..address }, 0);
        }
    }

    /// The extents of a portion.
    fn dealt(&self, at: &Address) -> Result<Option<Arc<Dealt>>> {
        match &self.entered {
            Some(Entered { at: here, dealt, .. })
                if (here.epoch, here.pass, here.portion) == (at.epoch, at.pass, at.portion) =>
            {
                Ok(Some(Arc::clone(dealt)))
            }
            _ => self.order.dealt(at, self.files.control),
        }
    }

    /// The block at an address, with all its records; `None` if there is none.
    fn go_to(&mut self, address: Address) -> Result<Option<Found>> {
        let Files { heads, single, control } = self.files;
        if let Some(rounds) = self.rounds {
            let Some((block, extent, first_record)) =
                rounds.block(self.lane, round_of(&address))?
            else {
                return Ok(None);
            };
            let mut head = rounds.head();
            let shape = heads.shape_by(rounds.file(), single, || Ok(head.take()))?;
            let chosen = Chosen::From(0);
            return Ok(Some(Found { address, extent, chosen, first_record, block, shape }));
        }
        let in_extent = |at: &Address| Address { block: 0, ..*at };
        let stays = self.entered.as_ref().is_some_and(|entered| {
            in_extent(&entered.at) == in_extent(&address) && entered.at.block <= address.block
        });
        if !stays {
            let Some(dealt) = self.dealt(&address)? else { return Ok(None) };
            let list = dealt.of_lane(self.lane);
            let extent = usize::try_from(address.extent).ok().and_then(|at| list.get(at)).cloned();
            let Some(extent) = extent else { return Ok(None) };
            let shape = heads.shape(extent.file, single, control)?;
            let all = self.order.choice.reads_fields();
            let columns = heads.columns(shape.as_deref()).filter(|_| !all);
            let before = self.entered.take().map(|entered| entered.blocks);
            let before = before.or_else(|| self.before.take());
            let found = self.order.found;
            let blocks = ExtentBlocks::enter(found, &extent, columns.as_deref(), before, control)?;
            let at = in_extent(&address);
            let record = extent.first_record;
            self.entered = Some(Entered { at, dealt, extent, record, blocks, shape });
        }
        let Some(entered) = &mut self.entered else { return Ok(None) };
        loop {
            let Some(block) = entered.blocks.next_block(control)? else { return Ok(None) };
            let (here, first_record) = (entered.at, entered.record);
            entered.at.block += 1;
            if self.order.numbers_records() {
                entered.record += block.records().count() as u64;
            }
            if here == address {
                let shape = if entered.extent.file == block.file {
                    entered.shape.clone()
                } else {
                    heads.shape(block.file, single, control)?
                };
                let repetition = self.order.repetition(&address, block.source);
                let block = block.read_again(repetition);
                let (extent, chosen) = (entered.extent.clone(), Chosen::From(0));
                return Ok(Some(Found { address, extent, chosen, first_record, block, shape }));
            }
        }
    }
}
