//! What a thread has seen: short pieces of at most four ids, two to a cache line.

use std::io;

use memmap2::{MmapMut, MmapOptions};

use super::key::{Key, SPARE};
use crate::machine::prefetch;

/// The most ids that an entry holds.
pub(crate) const MOST: usize = 4;

/// The number that stands for more ids than that: they are in the cache of long pieces.
const MORE: u64 = 7;

/// Words of one entry: the key, and four ids. The spare bits of the key are the number of ids, 0 in an empty entry.
const ENTRY: usize = 4;

/// Words of one set: two entries in one cache line of 64 bytes, the more recent one first.
const SET: usize = 8;

/// An answer of the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Two ids a word, and anything behind them.
    pub(crate) ids: [u64; 2],
    /// How many of them count.
    pub(crate) count: usize,
}

impl Found {
    /// The ids, and anything behind them.
    #[inline]
    pub(crate) fn all(&self) -> [u32; MOST] {
        let [first, second] = self.ids;
        #[expect(clippy::cast_possible_truncation, reason = "two ids a word")]
        let all = [first as u32, (first >> 32) as u32, second as u32, (second >> 32) as u32];
        all
    }
}

/// A cache starts with this many bytes, so that short uses touch little memory.
const SMALLEST: usize = 1 << 18;

/// How many times as large a cache that is full becomes: what follows the smallest is of large pages, of which a few take
/// less time than many small ones.
const GROWTH: usize = 16;

/// A word of memory.
type Word = [u8; 8];

/// A bounded table from short pieces to their ids.
pub(crate) struct PieceCache {
    /// Zeroed by the system, so that memory is touched only as it is used; a set is a cache line.
    memory: MmapMut,
    sets: u64,
    /// How many entries were written since the cache last grew.
    written: u64,
    most_bytes: usize,
}

impl PieceCache {
    /// A cache of at most `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        Self::of_size(bytes.min(SMALLEST), bytes).expect("the system has memory")
    }

    fn of_size(bytes: usize, most_bytes: usize) -> io::Result<Self> {
        let sets = (bytes / size_of::<[Word; SET]>()).clamp(1, 1 << 31);
        let mut memory = MmapOptions::new();
        memory.len(sets * size_of::<[Word; SET]>());
        if bytes <= SMALLEST {
            // All of it is looked at soon, and a page costs twice what is read before it is written.
            memory.populate();
        }
        let memory = memory.map_anon()?;
        // Pages of 2 MiB: with the usual ones nearly every look-up misses the cache of addresses as well.
        #[cfg(target_os = "linux")]
        if bytes > SMALLEST {
            let _ = memory.advise(memmap2::Advice::HugePage);
        }
        Ok(Self { memory, sets: sets as u64, written: 0, most_bytes })
    }

    /// Makes the cache larger if it is full and may grow. Places that were asked for before are void.
    #[inline]
    pub(crate) fn grow(&mut self) {
        if self.written > self.sets {
            self.grow_now();
        }
    }

    #[cold]
    fn grow_now(&mut self) {
        self.written = 0;
        let bytes = self.memory.len();
        if bytes * 4 > self.most_bytes * 3 {
            return;
        }
        // Where there is no more memory, the cache stays as it is.
        let Ok(larger) = Self::of_size(self.most_bytes.min(bytes * GROWTH), self.most_bytes) else {
            return;
        };
        let old = std::mem::replace(self, larger);
        // The older entry of a set goes first, so that it stays the older one.
        for entry in words(&old.memory).as_chunks::<ENTRY>().0.iter().rev() {
            let [low, high, ..] = entry.map(u64::from_le_bytes);
            let key = Key::stored(low, high);
            if high != 0 {
                let place = self.place(key);
                self.push(place, entry);
            }
        }
    }

    /// Has the set brought into the first-level cache.
    #[inline]
    pub(crate) fn prefetch(&self, place: u32) {
        prefetch(self.memory.as_ptr().wrapping_add(place as usize * size_of::<[Word; SET]>()));
    }

    /// Which set a key is in.
    #[inline]
    pub(crate) fn place(&self, key: Key) -> u32 {
        (((key.hash() >> 32) * self.sets) >> 32) as u32
    }

    /// The table as it is now.
    #[inline]
    pub(crate) fn sets(&self) -> Sets<'_> {
        Sets(words(&self.memory).as_chunks().0)
    }

    /// The ids of the piece, if it is there.
    #[inline]
    pub(crate) fn get(&self, place: u32, key: Key) -> Option<Found> {
        self.sets().get(place, key)
    }

    /// Whether the piece is there.
    #[inline]
    pub(crate) fn has(&self, place: u32, key: Key) -> bool {
        self.get(place, key).is_some()
    }

    /// Remembers the ids of a piece, or that they are too many.
    pub(crate) fn insert(&mut self, place: u32, key: Key, ids: &[u32]) {
        let count = if ids.len() > MOST { MORE } else { ids.len() as u64 };
        let id = |index: usize| u64::from(ids.get(index).copied().unwrap_or(0));
        let high = key.high & !SPARE | count << 61;
        let entry = [key.low, high, id(0) | id(1) << 32, id(2) | id(3) << 32];
        self.push(place, &entry.map(u64::to_le_bytes));
        self.written += 1;
    }

    /// Makes an entry the more recent one of its set.
    fn push(&mut self, place: u32, entry: &[Word; ENTRY]) {
        let sets = self.memory.as_chunks_mut().0.as_chunks_mut::<SET>().0;
        if let Some(set) = sets.get_mut(place as usize) {
            set.copy_within(..ENTRY, ENTRY);
            set[..ENTRY].copy_from_slice(entry);
        }
    }
}

/// Memory, word by word.
fn words(memory: &[u8]) -> &[Word] {
    memory.as_chunks().0
}

/// The table, to be looked at many times.
#[derive(Clone, Copy)]
pub(crate) struct Sets<'a>(&'a [[Word; SET]]);

impl Sets<'_> {
    /// The ids of the piece, if it is there.
    #[inline]
    pub(crate) fn get(self, place: u32, key: Key) -> Option<Found> {
        let set = self.0.get(place as usize)?;
        let word = |at: usize| u64::from_le_bytes(set[at]);
        // An address instead of a branch: which of the two it is cannot be predicted.
        let entry = usize::from(!key.is(word(0), word(1))) * ENTRY;
        let (low, high) = (word(entry), word(entry + 1));
        let ids = [word(entry + 2), word(entry + 3)];
        key.is(low, high).then_some(Found { ids, count: (high >> 61) as usize })
    }
}
