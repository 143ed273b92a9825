//! [`RecordOrder`]: the lane and the place of each extent, as a function of seed, epoch and position.
//!
//! An epoch is a number of passes over the files, more than one where a source is repeated. A pass is cut
//! into portions of neighbouring files. The extents of a portion are dealt to the lanes by their bytes, so
//! only the portions that are being read have to be computed.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use crate::error::Result;
use crate::source::extents::extent::{Extent, Numbering, extents};
use crate::source::extents::parts::parts;
use crate::source::extents::weigh::weigh;
use crate::source::{Block, Container, FilePart, FoundFiles, Index, Raw, SourceFile};
use crate::stream::record_selection::{ChosenRecords, RecordSelection};
use crate::util::control::Control;
use crate::util::message::{ShownPath, counted};
use crate::util::random::{Random, number_of};

/// Extents of a portion for each lane, if the files can be cut into that many.
const EXTENTS_PER_LANE: u64 = 16;

/// The most bytes of a small input, which is read to estimate its tokens, wherever it lies: some hundredths of a second from
/// a disk. In larger ones tokens follow bytes more closely.
const SMALL: u64 = 32 << 20;

/// Files, and the extents of all of them.
type Known = (Vec<usize>, Arc<[Extent]>);

/// Extents of a small input for each lane. With these, lanes differ by a thirty-second of their tokens at most.
const EXTENTS_PER_LANE_OF_SMALL: u64 = 2 * EXTENTS_PER_LANE;

/// The most bytes of an extent: a block. Extents of files of more than 64 GiB are larger, up to [`LARGEST`]; row groups and
/// batches that are larger get a warning.
const EXTENT: u64 = 256 << 10;
const LARGEST: u64 = 4 << 20;

/// The address of a block in the order of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BlockAddress {
    pub(crate) epoch: u64,
    pub(crate) pass: u64,
    pub(crate) portion: u64,
    /// The index of the extent among those of the lane in the portion.
    pub(crate) extent: u64,
    /// The index of the block in the extent.
    pub(crate) block: u64,
}

impl BlockAddress {
    /// The block behind it in its extent, if there is one.
    pub(crate) fn next_block(&self) -> Self {
        Self { block: self.block.saturating_add(1), ..*self }
    }

    /// The same place an epoch later.
    pub(crate) fn next_epoch(&self) -> Self {
        Self { epoch: self.epoch.saturating_add(1), ..*self }
    }
}

/// The extents of a portion, by lane.
#[derive(Debug)]
pub(crate) struct Dealt {
    lanes: Vec<Vec<Extent>>,
    /// The hash of the extents of each lane, once it is asked for.
    hashes: Vec<OnceLock<u32>>,
}

impl Dealt {
    /// A hash of the extents of a lane, in its order.
    pub(crate) fn hash_of_lane(&self, lane: usize) -> u32 {
        *self.hashes[lane].get_or_init(|| Extent::short_hash_of(&self.lanes[lane]))
    }

    /// The extents of a lane, in its order.
    pub(crate) fn of_lane(&self, lane: usize) -> &[Extent] {
        &self.lanes[lane]
    }
}

/// A portion, by epoch, pass and number.
type PortionKey = (u64, u64, u64);

/// The order of the records of sources that are read as one.
#[derive(Debug)]
pub(crate) struct RecordOrder<'a> {
    pub(crate) found: &'a FoundFiles,
    /// The sources, by their indices among those that were found.
    sources: Vec<usize>,
    seed: u64,
    shuffle: bool,
    /// The records that are taken.
    pub(crate) choice: &'a RecordSelection,
    /// The part of each file that holds them.
    parts: Vec<FilePart>,
    lanes: usize,
    /// True if lines are counted.
    counted: bool,
    /// Facts about the files that earlier runs found.
    index: Index<'a>,
    /// The extents of a small input, which are the same in all epochs, and its files.
    small: Mutex<Option<Known>>,
    /// The portions that lanes are reading.
    dealt: Mutex<HashMap<PortionKey, Weak<Dealt>>>,
    /// The most bytes in memory of an extent that was dealt, and the file of the extent.
    largest: Mutex<(u64, usize)>,
    /// The compressed files with a long way to decode before a place.
    slow: Mutex<BTreeSet<usize>>,
}

impl<'a> RecordOrder<'a> {
    pub(crate) fn new(
        found: &'a FoundFiles,
        sources: Vec<usize>,
        (seed, shuffle, choice): (u64, bool, &'a RecordSelection),
        lanes: usize,
        (counted, index): (bool, Index<'a>),
        control: &Control,
    ) -> Result<Self> {
        let parts = parts(found, &sources, &choice.numbers.range(), index, control)?;
        let dealt = Mutex::default();
        let (largest, slow) = (Mutex::default(), Mutex::default());
        Ok(Self {
            found,
            sources,
            seed,
            shuffle,
            choice,
            parts,
            lanes,
            counted,
            index,
            small: Mutex::default(),
            dealt,
            largest,
            slow,
        })
    }

    /// Warnings about files that take much memory or time to enter, for `reading` lanes of this process.
    pub(crate) fn warnings(&self, reading: usize) -> impl Iterator<Item = String> {
        self.of_groups(reading).into_iter().chain(self.of_compressed())
    }

    /// A warning about compressed files with a long way to decode before a place.
    fn of_compressed(&self) -> Option<String> {
        let slow = self.slow.lock().unwrap_or_else(PoisonError::into_inner);
        let first = &self.found.files[*slow.first()?].path;
        let (more, they) = match slow.len() - 1 {
            0 => (String::new(), "it"),
            1 => (" and another file".to_owned(), "they"),
            others => (format!(" and {others} other files"), "they"),
        };
        let are = if more.is_empty() { "is" } else { "are" };
        // Whether a file of JSON is an array, which is entered nowhere, is known to those who open it.
        let is_json = |file: &usize| self.found.files[*file].format.container == Container::Json;
        let but = if slow.iter().any(is_json) {
            " (not arrays of JSON: write their records as JSON Lines)"
        } else {
            ""
        };
        Some(format!(
            "{}{more} {are} compressed in one piece or in frames of more than {} MiB, so {they} cannot be shared by many \
             lanes, and a resume decodes a piece again up to its place; `fastpack reindex` writes such files in small frames{but}",
            first.display(),
            LARGEST >> 20,
        ))
    }

    /// A warning about row groups or batches that take much memory while they are read, by `reading` lanes of this
    /// process.
    fn of_groups(&self, reading: usize) -> Option<String> {
        let (bytes, file) = *self.largest.lock().unwrap_or_else(PoisonError::into_inner);
        let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
        (bytes > LARGEST).then(|| {
            format!(
                "{} has row groups or batches of up to {} MiB in memory, of which each lane reads one at a time: up to {} MiB \
                 for the {reading} lanes of this process; `fastpack reindex` writes it with small ones",
                self.found.files[file].path.display(),
                mebibytes(bytes),
                mebibytes(bytes.saturating_mul(reading as u64)),
            )
        })
    }

    /// The only file of a source that the caller gives, and the records of it that are taken.
    pub(crate) fn caller_records(&self) -> Option<(usize, Range<u64>)> {
        let file = self.found.files.iter().position(|file| self.sources.contains(&file.source))?;
        let is_of_caller = !self.found.files[file].is_file();
        is_of_caller.then(|| (file, self.parts[file].records.clone()))
    }

    /// All its files.
    pub(crate) fn all_files(&self) -> impl Iterator<Item = &SourceFile> {
        self.found.files.iter().filter(|it| self.sources.contains(&it.source))
    }

    /// Its files, as messages show them.
    pub(crate) fn shown_files(&self) -> String {
        let mut files = self.all_files();
        let first = files.next().map_or_else(String::new, |it| ShownPath(&it.path).to_string());
        match files.count() {
            0 => first,
            more => format!("{first} and {}", counted(more as u64, "more file")),
        }
    }

    /// True if records of line files are identified by their offsets.
    pub(crate) fn names_bytes(&self) -> bool {
        !self.counted
    }

    /// The number of passes of an epoch.
    pub(crate) fn passes(&self) -> u64 {
        let times = self.sources.iter().map(|&source| self.found.sources[source].repeat.get());
        if self.shuffle { times.max().unwrap_or(0) } else { times.fold(0, u64::saturating_add) }
    }

    /// The number of times that a source was read before in the epoch of an address.
    pub(crate) fn repetition(&self, at: &BlockAddress, source: usize) -> u64 {
        let before = self.sources.iter().take_while(|&&other| other != source);
        let repeats = before.map(|&source| self.found.sources[source].repeat.get());
        let first = if self.shuffle { 0 } else { repeats.fold(0, u64::saturating_add) };
        at.pass.saturating_sub(first)
    }

    /// The extents of a portion; `None` after the last of its pass.
    pub(crate) fn dealt(&self, at: &BlockAddress, control: &Control) -> Result<Option<Arc<Dealt>>> {
        let key = (at.epoch, at.pass, at.portion);
        let mut known = self.dealt.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dealt) = known.get(&key).and_then(Weak::upgrade) {
            return Ok(Some(dealt));
        }
        let files = self.files(at);
        let Some(portion) = self.portion(&files, at.portion) else { return Ok(None) };
        let dealt = Arc::new(self.deal(&files[portion], at, control)?);
        known.retain(|_, dealt| dealt.strong_count() > 0);
        known.insert(key, Arc::downgrade(&dealt));
        Ok(Some(dealt))
    }

    /// The files of a pass, in order. For a source with a limit, which is read as one, its first file.
    fn files(&self, at: &BlockAddress) -> Vec<usize> {
        let mut sources: Vec<usize> = Vec::new();
        let mut before = 0_u64;
        for &source in &self.sources {
            let repeat = self.found.sources[source].repeat.get();
            let after = before.saturating_add(repeat);
            let is_in =
                if self.shuffle { at.pass < repeat } else { (before..after).contains(&at.pass) };
            if is_in {
                sources.push(source);
            }
            before = after;
        }
        let mut files = Vec::new();
        for source in sources {
            let limited = self.found.sources[source].limit.is_some();
            let of_source = (0..).zip(&self.found.files).filter(|(_, file)| file.source == source);
            let of_source = of_source.map(|(number, _)| number);
            let of_source = of_source.take(if limited { 1 } else { usize::MAX });
            files.extend(of_source.filter(|&number: &usize| !self.parts[number].is_empty()));
        }
        if self.shuffle {
            let key =
                |file: &usize| number_of(&[self.seed, FILES, at.epoch, at.pass, *file as u64]);
            files.sort_by_cached_key(key);
        }
        files
    }

    /// The files of a portion, by their indices in the order of the pass.
    fn portion(&self, files: &[usize], portion: u64) -> Option<Range<usize>> {
        let enough = self.lanes as u64 * EXTENTS_PER_LANE * EXTENT;
        let (mut start, mut bytes, mut at) = (0, 0_u64, 0);
        for (end, &file) in (1..).zip(files) {
            bytes = bytes.saturating_add(self.parts[file].size());
            if bytes >= enough || end == files.len() {
                if at == portion {
                    return Some(start..end);
                }
                (start, bytes, at) = (end, 0, at + 1);
            }
        }
        None
    }

    /// The extents of some files.
    fn extents(&self, files: &[usize], control: &Control) -> Result<Arc<[Extent]>> {
        let bytes: u64 = files.iter().map(|&file| self.parts[file].size()).sum();
        let is_small = bytes <= SMALL;
        let mut small = self.small.lock().unwrap_or_else(PoisonError::into_inner);
        let mut files = files.to_vec();
        files.sort_unstable();
        if let Some((_, known)) = small.as_ref().filter(|(known, _)| *known == files) {
            return Ok(Arc::clone(known));
        }
        let most = EXTENT.max((bytes >> 18).min(LARGEST));
        let each = if is_small { EXTENTS_PER_LANE_OF_SMALL } else { EXTENTS_PER_LANE };
        // Rounded up, or one lane of a small input would get an extent more than the others.
        let wanted = bytes.div_ceil(self.lanes as u64 * each).clamp(1, most);
        let records = self.choice.numbers.stride.is_some();
        let numbering = Numbering { lines: self.counted, records };
        let index = self.index;
        let mut all = extents(self.found, &files, &self.parts, wanted, numbering, index, control)?;
        if is_small {
            weigh(self.found, &mut all, control)?;
        }
        let all = Arc::from(all);
        if is_small {
            *small = Some((files, Arc::clone(&all)));
        }
        Ok(all)
    }

    /// Deals the extents of some files to the lanes: the larger ones first, each to the lane with the least. Without
    /// `shuffle`, in the order of the input.
    fn deal(&self, files: &[usize], at: &BlockAddress, control: &Control) -> Result<Dealt> {
        let all = self.extents(files, control)?;
        let mut order: Vec<usize> = (0..all.len()).collect();
        if let Some(extent) = all.iter().max_by_key(|extent| extent.decoded) {
            let mut largest = self.largest.lock().unwrap_or_else(PoisonError::into_inner);
            *largest = (*largest).max((extent.decoded, extent.file));
        }
        let slow = all.iter().filter(|extent| extent.decoded_to_enter(self.found) > LARGEST);
        let slow = slow.map(|extent| extent.file);
        self.slow.lock().unwrap_or_else(PoisonError::into_inner).extend(slow);
        if self.shuffle {
            let place = |extent: &Extent| {
                [
                    self.seed,
                    EXTENTS,
                    at.epoch,
                    at.pass,
                    extent.file as u64,
                    u64::from(extent.number),
                ]
            };
            // Extents of similar size are dealt at random, so that a lane gets other extents in another
            // epoch.
            order.sort_by_cached_key(|&at| {
                (Reverse(size_class(all[at].weight)), number_of(&place(&all[at])))
            });
        }
        let mut emptiest: BinaryHeap<Reverse<(u64, usize)>> =
            (0..self.lanes).map(|lane| Reverse((0, lane))).collect();
        let mut counts = vec![0; self.lanes];
        let mut owners = vec![0; all.len()];
        for &at in &order {
            let Some(Reverse((weight, lane))) = emptiest.pop() else { break };
            // An empty extent counts too, or the first lane would get all of them.
            emptiest.push(Reverse((weight + all[at].weight.max(1), lane)));
            owners[at] = lane;
            counts[lane] += 1;
        }
        // Lists that grow take twice the memory of their extents, and small files have one extent each.
        let mut lanes: Vec<Vec<Extent>> = counts.into_iter().map(Vec::with_capacity).collect();
        for at in order {
            lanes[owners[at]].push(all[at].clone());
        }
        if self.shuffle {
            for (lane, list) in (0..).zip(&mut lanes) {
                let seed = number_of(&[self.seed, LANE, at.epoch, at.pass, at.portion, lane]);
                shuffle(list, seed, control)?;
            }
        }
        let hashes = lanes.iter().map(|_| OnceLock::new()).collect();
        Ok(Dealt { lanes, hashes })
    }

    /// True if records are taken by their numbers.
    pub(crate) fn numbers_records(&self) -> bool {
        !self.choice.numbers.is_all()
    }

    /// The records of a block of `extent` that are taken; `None` if all are. `first` is the number of the first record.
    pub(crate) fn chosen(
        &self,
        block: &Block,
        extent: &Extent,
        first: u64,
        of_split: &dyn Fn(Raw<'_>) -> bool,
    ) -> Option<ChosenRecords> {
        let range = &self.parts[extent.file].records;
        (!self.choice.is_all()).then(|| self.choice.records(block, of_split, range, first))
    }

    /// The packing order of the records of a block, as indices.
    pub(crate) fn records(
        &self,
        at: &BlockAddress,
        extent: &Extent,
        count: usize,
        control: &Control,
    ) -> Result<Vec<u32>> {
        let count = u32::try_from(count).expect("a block of fewer records than 2^32");
        let mut records: Vec<u32> = (0..count).collect();
        if self.shuffle {
            let place = [extent.file as u64, u64::from(extent.number), at.block];
            let [file, extent, block] = place;
            let seed = number_of(&[self.seed, RECORDS, at.epoch, at.pass, file, extent, block]);
            Random::new(seed).shuffle(&mut records, control)?;
        }
        Ok(records)
    }
}

/// The purpose of a random number. Numbers for different purposes are independent.
const FILES: u64 = 1;
const EXTENTS: u64 = 2;
const LANE: u64 = 3;
const RECORDS: u64 = 4;

/// The size class of a number of bytes. Sizes of one class differ by less than a quarter.
fn size_class(bytes: u64) -> u64 {
    let bytes = bytes.max(1);
    let magnitude = u64::from(bytes.ilog2());
    4 * magnitude + (((bytes << 2) >> magnitude) & 3)
}

fn shuffle<T>(items: &mut Vec<T>, seed: u64, control: &Control) -> Result<()> {
    let count = u32::try_from(items.len()).expect("a portion of fewer extents than 2^32");
    let mut order: Vec<u32> = (0..count).collect();
    Random::new(seed).shuffle(&mut order, control)?;
    let mut taken: Vec<Option<T>> = items.drain(..).map(Some).collect();
    items.extend(order.into_iter().filter_map(|at| taken[at as usize].take()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_a_class_differ_by_less_than_a_quarter() {
        let mut by_class: HashMap<u64, Vec<u64>> = HashMap::new();
        for bytes in (1..100).chain(1_000..1_300).chain(250_000..250_100) {
            by_class.entry(size_class(bytes)).or_default().push(bytes);
        }
        for sizes in by_class.values().filter(|sizes| sizes[0] >= 4) {
            let (least, most) = (sizes[0], sizes[sizes.len() - 1]);
            assert!(4 * (most - least) < least.max(4), "{least} to {most}");
        }
    }
}
