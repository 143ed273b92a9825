//! [`LaneBlocks`]: the blocks of one lane, in order, from any place on.

use std::collections::VecDeque;
use std::sync::Arc;

use super::caller_blocks::{CallerBlocks, RoundBlock, round_of};
use super::lane_extents::LaneExtents;
use super::record_order::{BlockAddress, RecordOrder};
use crate::error::{Error, Origin, Result};
use crate::pipeline::{ChosenBlocks, FileHeads};
use crate::record::Shape;
use crate::source::extents::extent::{Extent, ExtentBlocks, number_line};
use crate::source::{Block, short};
use crate::stream::state::lane_state::ReadHashes;
use crate::util::control::Control;
use crate::util::message::ShownPath;

/// The documents of a block that are packed, by their places in the order of the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChosenDocuments {
    /// The documents from this place on.
    From(u64),
    /// The documents at these places, ascending: they are in open rows.
    Only(Vec<u64>),
}

/// A block with documents of open rows, which is read again.
#[derive(Debug)]
pub(crate) struct OpenBlock {
    pub(crate) address: BlockAddress,
    /// The places of the documents in the rows, ascending.
    pub(crate) places: Vec<u64>,
}

/// The hash of blocks, by their hashes in order.
pub(crate) fn hash_of_blocks(hashes: &[u32]) -> u32 {
    let bytes: Vec<u8> = hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect();
    short(&blake3::hash(&bytes))
}

/// A block of a lane.
pub(crate) struct LaneBlock {
    pub(crate) address: BlockAddress,
    pub(crate) extent: Extent,
    pub(crate) chosen: ChosenDocuments,
    /// The number of the first record in its file, from 0, if records are numbered.
    pub(crate) first_record: u64,
    pub(crate) block: Block,
    pub(crate) shape: Option<Arc<Shape>>,
    /// The hash of its records, and that of the extents of the lane in its portion, if there are any.
    pub(crate) hash: u32,
    pub(crate) dealt: Option<u32>,
}

/// The files of a run, and the parts that a walk needs to read them.
#[derive(Clone, Copy)]
pub(crate) struct LaneFiles<'w, 'a> {
    pub(crate) heads: &'w FileHeads<'a>,
    pub(crate) single: &'w ChosenBlocks<'a>,
    pub(crate) control: &'w Control,
}

/// The place at which a walk begins.
pub(crate) struct WalkStart {
    /// Blocks with documents of open rows, in ascending order.
    pub(crate) again: VecDeque<OpenBlock>,
    /// The next block, and the place of the next document in it.
    pub(crate) next: (BlockAddress, u64),
    /// The hashes of the state.
    pub(crate) known: ReadHashes,
}

/// The blocks of one lane, in its order.
pub(crate) struct LaneBlocks<'w, 'a> {
    order: &'w RecordOrder<'a>,
    /// The records that the caller gives, if the pool is no files.
    rounds: Option<&'w CallerBlocks<'a>>,
    files: LaneFiles<'w, 'a>,
    lane: usize,
    /// The number of epochs; endless if `None`.
    epochs: Option<u64>,
    /// Blocks with documents of open rows, which are read again first.
    again: VecDeque<OpenBlock>,
    /// The hashes of the state, until they are compared.
    known: ReadHashes,
    /// The next block, and the place of the next document in it.
    next: (BlockAddress, u64),
    /// True if the lane is known to read a block in each epoch.
    reads: bool,
    entered: Option<OpenExtent>,
    /// The extent before, whose file the next one may be of.
    before: Option<ExtentBlocks>,
}

/// An extent that is being read.
struct OpenExtent {
    /// The address of its next block.
    at: BlockAddress,
    dealt: Arc<LaneExtents>,
    extent: Extent,
    /// The number of the next record in its file, if records are numbered.
    record: u64,
    blocks: ExtentBlocks,
    shape: Option<Arc<Shape>>,
}

impl<'w, 'a> LaneBlocks<'w, 'a> {
    pub(crate) fn new(
        order: &'w RecordOrder<'a>,
        rounds: Option<&'w CallerBlocks<'a>>,
        files: LaneFiles<'w, 'a>,
        lane: usize,
        epochs: Option<u64>,
        start: WalkStart,
    ) -> Self {
        let WalkStart { again, next, known } = start;
        let reads = next != (BlockAddress::default(), 0);
        // Records that the caller gives lie in no file that could be changed, and are read once.
        let known = if rounds.is_some() { ReadHashes::default() } else { known };
        let (entered, before) = (None, None);
        Self { order, rounds, files, lane, epochs, again, known, next, reads, entered, before }
    }

    /// The next block; `None` after the last.
    pub(crate) fn next(&mut self) -> Result<Option<LaneBlock>> {
        self.compare_extents()?;
        self.compare_blocks()?;
        if let Some(OpenBlock { address, places }) = self.again.pop_front() {
            let found = self.go_to(address)?;
            let found =
                found.map(|found| LaneBlock { chosen: ChosenDocuments::Only(places), ..found });
            return match found {
                Some(found) => Ok(Some(found)),
                // The lane reports the missing documents of this block.
                None => self.next(),
            };
        }
        let (address, place) = self.next;
        if let Some(hash) = self.known.next.take()
            && self.epochs.is_none_or(|epochs| address.epoch < epochs)
        {
            let Some(found) = self.go_to(address)? else {
                return Err(refused(&self.file_of(&address)?));
            };
            if found.hash != hash {
                return Err(refused(&format!("from {} on", self.origin_of(&found)?)));
            }
            return Ok(Some(self.pass(found, place)));
        }
        loop {
            let (address, place) = self.next;
            if self.epochs.is_some_and(|epochs| address.epoch >= epochs) {
                return Ok(None);
            }
            if self.rounds.is_some() {
                if let Some(found) = self.go_to(address)? {
                    return Ok(Some(self.pass(found, place)));
                }
                if !std::mem::take(&mut self.reads) {
                    return Ok(None);
                }
                self.next =
                    (BlockAddress { epoch: address.epoch + 1, ..BlockAddress::default() }, 0);
                continue;
            }
            if address.pass >= self.order.passes() {
                if !self.reads {
                    return Ok(None);
                }
                self.reads = false;
                self.next =
                    (BlockAddress { epoch: address.epoch + 1, ..BlockAddress::default() }, 0);
                continue;
            }
            let Some(dealt) = self.dealt(&address)? else {
                let BlockAddress { epoch, pass, .. } = address;
                self.next = (BlockAddress { epoch, pass: pass + 1, ..BlockAddress::default() }, 0);
                continue;
            };
            if address.extent >= dealt.of_lane(self.lane).len() as u64 {
                self.next = (
                    BlockAddress { portion: address.portion + 1, extent: 0, block: 0, ..address },
                    0,
                );
                continue;
            }
            if let Some(found) = self.go_to(address)? {
                return Ok(Some(self.pass(found, place)));
            }
            self.before = self.entered.take().map(|entered| entered.blocks);
            self.next = (BlockAddress { extent: address.extent + 1, block: 0, ..address }, 0);
        }
    }

    /// The documents from `place` on of a block; the next block is the one behind it.
    fn pass(&mut self, found: LaneBlock, place: u64) -> LaneBlock {
        let address = found.address;
        self.reads = true;
        self.next = (BlockAddress { block: address.block + 1, ..address }, 0);
        LaneBlock { chosen: ChosenDocuments::From(place), ..found }
    }

    /// The extents of a portion.
    fn dealt(&self, at: &BlockAddress) -> Result<Option<Arc<LaneExtents>>> {
        match &self.entered {
            Some(OpenExtent { at: here, dealt, .. }) if here.portion_key() == at.portion_key() => {
                Ok(Some(Arc::clone(dealt)))
            }
            _ => self.order.dealt(at, self.files.control),
        }
    }

    /// Fails if the lane is dealt other extents than before, where the state names them.
    fn compare_extents(&mut self) -> Result<()> {
        let Some(known) = self.known.dealt.take() else { return Ok(()) };
        let dealt = self.dealt(&self.next.0)?;
        if dealt.is_some_and(|dealt| dealt.hash_of_lane(self.lane) == known) {
            return Ok(());
        }
        let files = self.order.shown_files();
        let reason = format!(
            "is of other records than {files} now: a file was changed since it was read, at the same size, so that the lanes \
             would read other parts of it"
        );
        Err(Error::option("state", reason))
    }

    /// Fails if the blocks that are read again are others than before. They are read once more to be packed, since the
    /// first of them may not be used before the last is compared.
    fn compare_blocks(&mut self) -> Result<()> {
        let Some(known) = self.known.open.take() else { return Ok(()) };
        let addresses: Vec<BlockAddress> = self.again.iter().map(|again| again.address).collect();
        let (mut hashes, mut places) = (Vec::new(), None);
        for address in addresses {
            let Some(found) = self.go_to(address)? else {
                return Err(refused(&self.file_of(&address)?));
            };
            hashes.push(found.hash);
            let place = place_of(&found);
            let first = places.take().map_or_else(|| place.clone(), |(first, _)| first);
            places = Some((first, place));
        }
        if hash_of_blocks(&hashes) == known {
            return Ok(());
        }
        let Some((first, last)) = places else { return Ok(()) };
        let (first, last) = (self.numbered(first)?, self.numbered(last)?);
        Err(refused(&format!("between {first} and the block from {last} on")))
    }

    /// The place of the first record of a block.
    fn origin_of(&self, found: &LaneBlock) -> Result<Origin> {
        self.numbered(place_of(found))
    }

    /// A place with the number of its line.
    fn numbered(&self, mut origin: Origin) -> Result<Origin> {
        if self.order.names_bytes() {
            number_line(self.order.found, &mut origin, self.files.control)?;
        }
        Ok(origin)
    }

    /// The file of a block that is not there, as messages show it.
    fn file_of(&self, address: &BlockAddress) -> Result<String> {
        let found = self.order.found;
        let dealt = if self.rounds.is_none() { self.dealt(address)? } else { None };
        let extents = dealt.as_ref().map_or(&[][..], |dealt| dealt.of_lane(self.lane));
        let extent = usize::try_from(address.extent).ok().and_then(|at| extents.get(at));
        Ok(extent.map_or_else(
            || format!("in {}", self.order.shown_files()),
            |extent| format!("in {}", ShownPath(&found.files[extent.file].path)),
        ))
    }

    /// The block at an address, with all its records; `None` if there is none.
    fn go_to(&mut self, address: BlockAddress) -> Result<Option<LaneBlock>> {
        let LaneFiles { heads, single, control, .. } = self.files;
        if let Some(rounds) = self.rounds {
            let Some(found) = rounds.block(self.lane, round_of(&address))? else { return Ok(None) };
            let RoundBlock { block, extent, first_record } = found;
            let mut head = rounds.head();
            let shape = heads.shape_by(rounds.file(), single, || Ok(head.take()))?;
            return Ok(Some(LaneBlock {
                address,
                extent,
                chosen: ChosenDocuments::From(0),
                first_record,
                block,
                shape,
                hash: 0,
                dealt: None,
            }));
        }
        let in_extent = |at: &BlockAddress| BlockAddress { block: 0, ..*at };
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
            self.entered = Some(OpenExtent { at, dealt, extent, record, blocks, shape });
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
                return Ok(Some(LaneBlock {
                    address,
                    extent: entered.extent.clone(),
                    chosen: ChosenDocuments::From(0),
                    first_record,
                    hash: block.short_hash()?,
                    block,
                    shape,
                    dealt: Some(entered.dealt.hash_of_lane(self.lane)),
                }));
            }
        }
    }
}

/// The place of the first record of a block, by the offset of its line where lines are not counted.
fn place_of(found: &LaneBlock) -> Origin {
    let line = found.block.records().next().map_or(1, |record| record.line);
    Origin { path: Arc::clone(&found.block.path), line }
}

/// The error of records that are others than before.
fn refused(at: &str) -> Error {
    let reason = format!(
        "holds rows of records {at} that are others now: the file was changed since they were read, at the same size; resume \
         with the file as it was, or begin again"
    );
    Error::option("state", reason)
}
