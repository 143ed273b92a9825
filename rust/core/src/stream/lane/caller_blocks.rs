//! [`CallerBlocks`]: the blocks of records that the caller gives in order, dealt to the lanes.
//!
//! One reader serves all lanes of a process. It reads rounds: in each, every lane gets a block of the same number of records.
//! So the place of a block in a lane is its epoch and its round. A block waits in memory until its lane takes it. The
//! blocks of other ranks are passed over.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::record_order::BlockAddress;
use crate::error::{Error, Result};
use crate::source::extents::extent::Extent;
use crate::source::{Block, CallerValues, FoundFiles, Reiterable};
use crate::stream::state::SourceSnapshot;
use crate::stream::state::lane_state::LaneState;
use crate::util::control::Control;

/// Rounds with blocks of the same number of records, and the most records of a block. The blocks of the first rounds have
/// one record, those of the next two, and so on: each lane gets some records of a small source, and none gets many more
/// than another.
const ROUNDS_PER_SIZE: u64 = 8;
const MOST_RECORDS: u64 = 64;

/// The first records, by which their shape is found.
const HEAD: usize = 16;

/// Records between two snapshots of the place of a source that tells it: as many are read again at most when a state is loaded,
/// besides those that slower lanes still need.
const BETWEEN_SNAPSHOTS: u64 = 512;

/// Records that are passed over in one call.
const PASSED_AT_ONCE: u64 = 1024;

/// The sources that the caller gives, by their numbers.
#[derive(Debug, Default)]
pub struct CallerSources(BTreeMap<usize, Mutex<Box<dyn Reiterable>>>);

impl CallerSources {
    /// The records of these sources.
    pub fn of(caller_sources: impl IntoIterator<Item = (usize, Box<dyn Reiterable>)>) -> Self {
        Self(caller_sources.into_iter().map(|(source, it)| (source, Mutex::new(it))).collect())
    }
}

/// A round of an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Round {
    pub(crate) epoch: u64,
    pub(crate) number: u64,
}

/// The block of a lane in a round.
pub(crate) struct RoundBlock {
    pub(crate) block: Block,
    pub(crate) extent: Extent,
    /// The number of its first record, from 0.
    pub(crate) first_record: u64,
}

/// Stands for "needs no further round".
pub(crate) const LAST: Round = Round { epoch: u64::MAX, number: u64::MAX };

/// The records of a block in a round.
fn size(round: u64) -> u64 {
    (round / ROUNDS_PER_SIZE + 1).min(MOST_RECORDS)
}

/// The records of each lane before a round.
fn before(round: u64) -> u64 {
    let step = (round / ROUNDS_PER_SIZE).min(MOST_RECORDS - 1);
    ROUNDS_PER_SIZE * step * (step + 1) / 2 + (round - ROUNDS_PER_SIZE * step) * (step + 1)
}

/// The blocks of one source.
pub(crate) struct CallerBlocks<'a> {
    found: &'a FoundFiles,
    /// Its only file.
    file: usize,
    caller_source: &'a Mutex<Box<dyn Reiterable>>,
    lanes: u64,
    /// The first record that is taken, and the one behind the last.
    taken: std::ops::Range<u64>,
    /// The first round that a lane needs; `None` for lanes of other ranks.
    first: Vec<Option<Round>>,
    /// The first records, once the source is open.
    head: OnceLock<CallerValues>,
    reading: Mutex<CallerPosition>,
    waiting: Mutex<WaitingBlocks>,
    control: &'a Control,
}

/// The place of the reader.
struct CallerPosition {
    /// True if the epoch is open.
    is_open: bool,
    /// The snapshot to start at.
    from: Option<SourceSnapshot>,
    /// The round, and the number of the next block in it.
    at: Round,
    turn: u64,
    /// The first records, as far as they are not dealt yet.
    ahead: CallerValues,
    /// True if the records of the epoch have ended behind those of `ahead`.
    ended: bool,
    /// True if an epoch had no record.
    is_empty: bool,
    /// The next record at which a snapshot is taken; `None` for a source that tells no place.
    snapshot_at: Option<u64>,
}

/// Blocks and snapshots that may still be needed.
#[derive(Default)]
struct WaitingBlocks {
    /// By lane.
    blocks: Vec<BTreeMap<Round, Arc<CallerValues>>>,
    /// The lanes that take no more blocks.
    exhausted: Vec<bool>,
    snapshots: VecDeque<SourceSnapshot>,
}

/// The first round that a lane with this state needs of a pool.
pub(crate) fn floor_of(state: &LaneState, pool: usize) -> Round {
    let rows = state.closed.iter().chain(state.open.iter().map(|(_, row)| row));
    let documents = rows.flatten().map(|piece| piece.document).filter(|it| it.pool == pool);
    let next = match state.pools.get(pool) {
        None => Round::default(),
        Some(pool) if pool.exhausted => LAST,
        Some(pool) => round_of(&pool.next.0),
    };
    documents.map(|it| round_of(&it.address)).fold(next, Round::min)
}

/// The round of a block.
pub(crate) fn round_of(address: &BlockAddress) -> Round {
    Round { epoch: address.epoch, number: address.block }
}

impl<'a> CallerBlocks<'a> {
    /// The blocks of a file of [`FoundFiles`], for lanes that need them from the rounds `first` on.
    pub(crate) fn new(
        found: &'a FoundFiles,
        file: usize,
        caller_sources: &'a CallerSources,
        taken: std::ops::Range<u64>,
        first: Vec<Option<Round>>,
        from: Option<&SourceSnapshot>,
        control: &'a Control,
    ) -> Result<Self> {
        let caller_source = caller_sources.0.get(&found.files[file].source);
        let caller_source =
            caller_source.ok_or_else(|| Error::option("files", "gives no records"))?;
        let lanes = first.len();
        let at = first.iter().flatten().min().copied().unwrap_or_default();
        let from = from.filter(|saved| saved.epoch == at.epoch && saved.round <= at.number);
        let from = from.cloned();
        let ahead = CallerValues::default();
        let reading = CallerPosition {
            is_open: false,
            from,
            at,
            turn: 0,
            ahead,
            ended: false,
            is_empty: false,
            snapshot_at: Some(BETWEEN_SNAPSHOTS),
        };
        let waiting = WaitingBlocks {
            blocks: vec![BTreeMap::new(); lanes],
            exhausted: vec![false; lanes],
            snapshots: VecDeque::new(),
        };
        Ok(Self {
            found,
            file,
            caller_source,
            lanes: lanes as u64,
            taken,
            first,
            head: OnceLock::new(),
            reading: Mutex::new(reading),
            waiting: Mutex::new(waiting),
            control,
        })
    }

    /// The file.
    pub(crate) fn file(&self) -> usize {
        self.file
    }

    /// The block of a lane in a round; `None` after the last of the epoch. A lane asks for rounds in ascending order.
    pub(crate) fn block(&self, lane: usize, round: Round) -> Result<Option<RoundBlock>> {
        let values = match self.waiting(lane, round) {
            _ if locked(&self.waiting).exhausted[lane] => None,
            Some(values) => Some(values),
            None => self.read_up_to(lane, round)?,
        };
        Ok(values.map(|values| {
            let first_record =
                self.first_record(round.number) + self.turn_of(lane, round) * size(round.number);
            let number = u32::try_from(lane).expect("few lanes");
            let block = values.block(&self.found.files[self.file], self.file, first_record + 1);
            let extent = Extent::of_records(self.file, number, first_record);
            RoundBlock { block, extent, first_record }
        }))
    }

    /// The first records, once a block was read.
    pub(crate) fn head(&self) -> Option<Block> {
        let head = self.head.get().filter(|head| !head.is_empty())?;
        Some(head.block(&self.found.files[self.file], self.file, 1))
    }

    /// The last snapshot at or before a round. Earlier ones are forgotten: no lane goes back behind a round that was asked for.
    pub(crate) fn saved(&self, floor: Round) -> Option<SourceSnapshot> {
        let mut waiting = locked(&self.waiting);
        let snapshots = &mut waiting.snapshots;
        let is_needed = |it: &SourceSnapshot| Round { epoch: it.epoch, number: it.round } <= floor;
        while snapshots.get(1).is_some_and(is_needed) {
            snapshots.pop_front();
        }
        snapshots.front().filter(|first| is_needed(first)).cloned()
    }

    /// Forgets the blocks of a lane that takes no more, and keeps none for it.
    pub(crate) fn leave(&self, lane: usize) {
        let mut waiting = locked(&self.waiting);
        waiting.blocks[lane].clear();
        waiting.exhausted[lane] = true;
    }

    /// A block that waits for its lane.
    fn waiting(&self, lane: usize, round: Round) -> Option<Arc<CallerValues>> {
        let mut waiting = locked(&self.waiting);
        let blocks = &mut waiting.blocks[lane];
        *blocks = blocks.split_off(&round);
        blocks.get(&round).map(Arc::clone)
    }

    /// Reads until the block of a lane in a round is there, or the epoch has ended.
    fn read_up_to(&self, lane: usize, round: Round) -> Result<Option<Arc<CallerValues>>> {
        let mut reading = locked(&self.reading);
        let mut caller_source = locked(self.caller_source);
        if self.head.get().is_none() {
            self.begin(&mut reading, &mut **caller_source)?;
        }
        loop {
            if let Some(found) = self.waiting(lane, round) {
                return Ok(Some(found));
            }
            let turn = self.turn_of(lane, round);
            if reading.is_empty || (reading.at, reading.turn) > (round, turn) {
                return Ok(None);
            }
            self.control.tick()?;
            self.read_block(&mut reading, &mut **caller_source)?;
        }
    }

    /// Opens the source at the first round that a lane needs.
    fn begin(
        &self,
        reading: &mut CallerPosition,
        caller_source: &mut dyn Reiterable,
    ) -> Result<()> {
        caller_source.begin(0, None)?;
        let head = CallerValues::of(caller_source.next(HEAD)?);
        let Round { epoch, number: round } = reading.at;
        reading.is_open = true;
        if reading.at == Round::default() && self.taken.start == 0 {
            (reading.ended, reading.ahead) = (head.len() < HEAD, head.clone());
        } else if let Some(saved) = reading.from.take() {
            caller_source.begin(epoch, Some(&saved.place))?;
            let first = self.first_record(saved.round);
            self.go_to(reading, caller_source, first, round)?;
            locked(&self.waiting).snapshots.push_back(saved);
        } else {
            caller_source.begin(epoch, None)?;
            self.go_to(reading, caller_source, 0, round)?;
        }
        self.head.get_or_init(|| head);
        Ok(())
    }

    /// Goes from a record of an epoch to the first of a round.
    fn go_to(
        &self,
        reading: &mut CallerPosition,
        caller_source: &mut dyn Reiterable,
        from: u64,
        round: u64,
    ) -> Result<()> {
        let wanted = self.first_record(round);
        let passed = from + self.pass(caller_source, wanted - from)?;
        // The last round of an epoch need not be whole.
        if round > 0 && passed <= self.first_record(round - 1) {
            return Err(Error::option(
                "state",
                format!(
                    "is of another source: `{}` ends after {passed} records of an epoch, before the place where it is resumed",
                    self.found.files[self.file].path.display()
                ),
            ));
        }
        if passed < wanted {
            Self::next_epoch(reading);
        }
        reading.snapshot_at = reading.snapshot_at.map(|_| passed + BETWEEN_SNAPSHOTS);
        Ok(())
    }

    /// Reads the next block, and keeps it for its lane.
    fn read_block(
        &self,
        reading: &mut CallerPosition,
        caller_source: &mut dyn Reiterable,
    ) -> Result<()> {
        let Round { epoch, number: round } = reading.at;
        if !reading.is_open {
            caller_source.begin(epoch, None)?;
            let passed = self.pass(caller_source, self.taken.start)?;
            (reading.is_open, reading.ended) = (true, passed < self.taken.start);
            reading.snapshot_at = reading.snapshot_at.map(|_| BETWEEN_SNAPSHOTS);
        }
        let first = self.first_record(round) + reading.turn * size(round);
        if reading.turn == 0 && reading.ahead.is_empty() && !reading.ended {
            self.snapshot(reading, caller_source, first)?;
        }
        let wanted = size(round).min(self.taken.end.saturating_sub(first));
        let lane = self.lane_of(reading.at, reading.turn);
        let is_needed = self.first[lane].is_some_and(|first| reading.at >= first)
            && !locked(&self.waiting).exhausted[lane];
        let count = if is_needed {
            let values = Self::next(reading, caller_source, wanted)?;
            let count = values.len() as u64;
            if count > 0 {
                let mut waiting = locked(&self.waiting);
                waiting.blocks[lane].insert(reading.at, Arc::new(values));
            }
            count
        } else {
            let ahead = reading.ahead.take(small(wanted)).len() as u64;
            let rest = wanted - ahead;
            ahead + if reading.ended { 0 } else { self.pass(caller_source, rest)? }
        };
        if count < size(round) {
            reading.is_empty = first == self.taken.start && count == 0 && round == 0;
            Self::next_epoch(reading);
        } else if reading.turn + 1 < self.lanes {
            reading.turn += 1;
        } else {
            (reading.at, reading.turn) = (Round { epoch, number: round + 1 }, 0);
        }
        Ok(())
    }

    fn next_epoch(reading: &mut CallerPosition) {
        (reading.at, reading.turn) = (Round { epoch: reading.at.epoch + 1, number: 0 }, 0);
        (reading.ahead, reading.ended, reading.is_open) = (CallerValues::default(), false, false);
    }

    /// The next records, those at hand first.
    fn next(
        reading: &mut CallerPosition,
        caller_source: &mut dyn Reiterable,
        most: u64,
    ) -> Result<CallerValues> {
        let ahead = reading.ahead.take(small(most));
        let rest = most - ahead.len() as u64;
        if rest == 0 || reading.ended {
            return Ok(ahead);
        }
        let more = CallerValues::of(caller_source.next(small(rest))?);
        reading.ended = (more.len() as u64) < rest;
        Ok(ahead.and(more))
    }

    /// Passes over records, and returns their number.
    fn pass(&self, caller_source: &mut dyn Reiterable, count: u64) -> Result<u64> {
        let mut passed = 0;
        while passed < count {
            self.control.tick()?;
            let wanted = (count - passed).min(PASSED_AT_ONCE);
            let now = caller_source.skip(wanted)?;
            passed += now;
            if now < wanted {
                break;
            }
        }
        Ok(passed)
    }

    /// Takes a snapshot before the record `first`, if it is time.
    fn snapshot(
        &self,
        reading: &mut CallerPosition,
        caller_source: &mut dyn Reiterable,
        first: u64,
    ) -> Result<()> {
        if reading.snapshot_at.is_none_or(|at| first < at) {
            return Ok(());
        }
        let place = caller_source.snapshot()?;
        reading.snapshot_at = place.as_ref().map(|_| first + BETWEEN_SNAPSHOTS);
        if let Some(place) = place {
            let Round { epoch, number: round } = reading.at;
            locked(&self.waiting).snapshots.push_back(SourceSnapshot { epoch, round, place });
        }
        Ok(())
    }

    /// The number of the first record of a round in its epoch.
    fn first_record(&self, round: u64) -> u64 {
        self.taken.start + self.lanes * before(round)
    }

    /// The lane that gets a block of a round. All but the first rounds begin with another lane each time, so that no lane gets
    /// always the longer records of a source.
    fn lane_of(&self, round: Round, turn: u64) -> usize {
        usize::try_from((turn + self.shift_of(round)) % self.lanes).expect("a lane")
    }

    /// The number of the block of a lane in a round.
    fn turn_of(&self, lane: usize, round: Round) -> u64 {
        (lane as u64 + 2 * self.lanes - self.shift_of(round)) % self.lanes
    }

    /// The lane with which a round begins, up to the number of lanes.
    fn shift_of(&self, Round { epoch, number }: Round) -> u64 {
        if number == 0 { 0 } else { (epoch % self.lanes) + (number % self.lanes) }
    }
}

/// A number of records that are held in memory.
fn small(count: u64) -> usize {
    usize::try_from(count).expect("at most the records of a block")
}

/// Locks a mutex whose content is valid after a panic too.
fn locked<T: ?Sized>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_records_before_a_round_are_those_of_the_rounds_before_it() {
        let mut sum = 0;
        for round in 0..2000 {
            assert_eq!(before(round), sum, "round {round}");
            sum += size(round);
        }
        assert_eq!((size(0), size(7), size(8), size(5000)), (1, 1, 2, MOST_RECORDS));
    }
}
