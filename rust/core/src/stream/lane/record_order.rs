//! [`RecordOrder`]: the lane and the place of each extent, as a function of seed, epoch and position.
//!
//! An epoch is a number of passes over the files, more than one where a source is repeated. A pass is cut
//! into portions of neighbouring files. The extents of a portion are dealt to the lanes by their bytes, so
//! only the portions that are being read have to be computed.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::error::Result;
use crate::source::extents::extent::{Extent, ExtentNumbering, extents};
use crate::source::extents::parts::parts;
use crate::source::extents::token_weights::weigh;
use crate::source::{Block, Container, FactIndex, FilePart, FoundFiles, RawContent, SourceFile};
use crate::stream::lane::lane_extents::{LaneExtents, PortionKey};
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
type FileExtents = (Vec<usize>, Arc<[Extent]>);

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

    pub(crate) fn portion_key(&self) -> PortionKey {
        let Self { epoch, pass, portion, .. } = *self;
        PortionKey { epoch, pass, portion }
    }

    /// The same place an epoch later.
    pub(crate) fn next_epoch(&self) -> Self {
        Self { epoch: self.epoch.saturating_add(1), ..*self }
    }
}

/// The options of all orders of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OrderOptions<'a> {
    pub(crate) seed: u64,
    pub(crate) shuffle: bool,
    /// The records that are taken.
    pub(crate) choice: &'a RecordSelection,
    pub(crate) lanes: usize,
    /// True if lines are counted.
    pub(crate) counted: bool,
    /// Facts about the files that earlier runs found.
    pub(crate) index: FactIndex<'a>,
}

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
    index: FactIndex<'a>,
    /// The extents of a small input, which are the same in all epochs, and its files.
    small: Mutex<Option<FileExtents>>,
    /// The portions that lanes are reading.
    dealt: Mutex<HashMap<PortionKey, Weak<LaneExtents>>>,
    /// The most bytes in memory of an extent that was dealt, and the file of the extent.
    largest: Mutex<(u64, usize)>,
    /// The compressed files with a long way to decode before a place.
    slow: Mutex<BTreeSet<usize>>,
}

impl<'a> RecordOrder<'a> {
    pub(crate) fn new(
        found: &'a FoundFiles,
        sources: Vec<usize>,
        options: OrderOptions<'a>,
        control: &Control,
    ) -> Result<Self> {
        let OrderOptions { seed, shuffle, choice, lanes, counted, index } = options;
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
        // Only the reader of a JSON file knows if it is an array, which has no extents.
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
    pub(crate) fn dealt(
        &self,
        at: &BlockAddress,
        control: &Control,
    ) -> Result<Option<Arc<LaneExtents>>> {
        let key = at.portion_key();
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
        let numbering = ExtentNumbering { lines: self.counted, records };
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

    /// Deals the extents of some files to the lanes.
    fn deal(&self, files: &[usize], at: &BlockAddress, control: &Control) -> Result<LaneExtents> {
        let all = self.extents(files, control)?;
        if let Some(extent) = all.iter().max_by_key(|extent| extent.decoded) {
            let mut largest = self.largest.lock().unwrap_or_else(PoisonError::into_inner);
            *largest = (*largest).max((extent.decoded, extent.file));
        }
        let slow = all.iter().filter(|extent| extent.decoded_to_enter(self.found) > LARGEST);
        let slow = slow.map(|extent| extent.file);
        self.slow.lock().unwrap_or_else(PoisonError::into_inner).extend(slow);
        let seed = self.shuffle.then_some(self.seed);
        LaneExtents::deal(&all, self.lanes, seed, at.portion_key(), control)
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
        of_split: &dyn Fn(RawContent<'_>) -> bool,
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

/// The purposes of random numbers here; those of [`dealt_extents`](super::lane_extents) are others. Numbers for different purposes
/// are independent.
const FILES: u64 = 1;
const RECORDS: u64 = 4;
