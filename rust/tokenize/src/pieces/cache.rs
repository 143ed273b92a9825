//! The cache of one thread for short pieces with at most four ids; two entries share a cache line.

use std::io;

use super::key::{Key, SPARE};
use super::memory::{LARGE, Line, LineMemory, Word};
use crate::machine::AHEAD;

/// The most ids that an entry holds.
pub(crate) const MOST: usize = 4;

/// Words of one entry: the key, and four ids. The spare bits of the key hold the number of ids plus one, or 0
/// if the ids are too many and in the cache of long pieces. An entry of zeros is free.
const ENTRY: usize = 4;

/// The left shift of that number.
pub(super) const COUNT: u32 = SPARE.trailing_zeros();

/// The ids of a piece in the cache.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    /// The ids, two in each word.
    ids: [u64; 2],
    /// The number of ids plus one, or 0 if the cache of long pieces has the ids.
    next: usize,
}

impl Found {
    /// The ids of an entry; `high` is its second word.
    #[inline]
    pub(super) fn new(ids: [u64; 2], high: u64) -> Self {
        Self { ids, next: (high >> COUNT) as usize }
    }

    /// Whether the ids are here; if not, the cache of long pieces has them.
    #[inline]
    pub(crate) fn is_whole(self) -> bool {
        self.next > 0
    }

    /// The number of ids.
    #[inline]
    pub(crate) fn count(self) -> usize {
        self.next.saturating_sub(1)
    }

    /// The ids; entries after the last one are arbitrary.
    #[inline]
    pub(crate) fn all(self) -> [u32; MOST] {
        let [first, second] = self.ids;
        #[expect(clippy::cast_possible_truncation, reason = "two ids a word")]
        let all = [first as u32, (first >> 32) as u32, second as u32, (second >> 32) as u32];
        all
    }

    /// The ids.
    #[inline]
    pub(crate) fn ids(self) -> impl Iterator<Item = u32> {
        self.all().into_iter().take(self.count())
    }
}

/// The size of a new cache in bytes, so that short runs touch little memory.
const SMALLEST: usize = 1 << 18;

/// The factor by which a full cache grows: all sizes but the smallest use large pages, and a few of these
/// take less time than many small ones.
const GROWTH: usize = 16;

/// A bounded table of the ids of short pieces.
///
/// A set is a cache line of two entries, the more recent one first. If the set of a piece is full, the piece
/// goes to another set that has room. Without that, 2 % of the words of several tokens were missing when 30
/// MB of English were encoded a second time, though most entries were free (llama3, 2026-11-22).
pub(crate) struct PieceCache {
    memory: LineMemory,
    sets: u64,
    /// The number of entries that were written since the cache last grew.
    written: u64,
    most_bytes: usize,
}

impl PieceCache {
    /// A cache of at most `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        Self::of_size(bytes.min(SMALLEST), bytes).expect("the system has memory")
    }

    fn of_size(bytes: usize, most_bytes: usize) -> io::Result<Self> {
        // The system maps memory where a large page begins if it is so many large pages.
        let bytes = if bytes < LARGE { bytes } else { bytes - bytes % LARGE };
        let sets = (bytes / size_of::<Line>()).clamp(1, 1 << 31);
        Ok(Self { memory: LineMemory::new(sets)?, sets: sets as u64, written: 0, most_bytes })
    }

    /// Whether the cache is full, so that [`Self::grow`] is to be called.
    #[inline]
    pub(crate) fn is_filled(&self) -> bool {
        self.written > self.sets
    }

    /// Makes the cache larger if it is full and may grow, to at most `most` bytes. Set numbers from before are
    /// then invalid.
    #[cold]
    pub(crate) fn grow(&mut self, most: usize) {
        if !self.is_filled() {
            return;
        }
        self.written = 0;
        let most = most.min(self.most_bytes);
        let bytes = size_of_val(self.memory.lines());
        if bytes * 4 > most * 3 || bytes + size_of::<Line>() > most {
            return;
        }
        // Without more memory, the cache keeps its size.
        let Ok(larger) = Self::of_size(most.min(bytes * GROWTH), self.most_bytes) else {
            return;
        };
        let old = std::mem::replace(self, larger);
        // The older entry of a set is inserted first, so that it stays the older one.
        let entries = old.memory.lines().as_flattened().as_chunks::<ENTRY>().0.iter().rev();
        let keyed = entries.filter_map(|entry| {
            let [low, high, ..] = entry.map(u64::from_le_bytes);
            (high != 0).then(|| (Key::stored(low, high), entry))
        });
        let mut ahead = keyed.clone().skip(AHEAD);
        for (key, entry) in keyed {
            if let Some((next, _)) = ahead.next() {
                self.prefetch(self.place(next));
            }
            self.put(key, entry);
        }
    }

    /// Prefetches a set into the first-level cache.
    #[inline]
    pub(crate) fn prefetch(&self, place: u32) {
        self.memory.prefetch(place as usize);
    }

    /// The set of a key.
    #[inline]
    pub(crate) fn place(&self, key: Key) -> u32 {
        (((key.hash() >> 32) * self.sets) >> 32) as u32
    }

    /// The second set of a key, for the case that the first one is full.
    #[inline]
    fn other_place(&self, key: Key) -> u32 {
        (((key.hash() & u64::from(u32::MAX)) * self.sets) >> 32) as u32
    }

    /// The current sets, for look-ups.
    #[inline]
    pub(crate) fn sets(&self) -> Sets<'_> {
        Sets(self.memory.lines())
    }

    /// The ids of the piece, if it is in the cache.
    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<Found> {
        let place = self.place(key);
        let elsewhere = || self.sets().get(self.other_place(key), key);
        self.sets().get(place, key).or_else(|| self.is_full(place).then(elsewhere).flatten())
    }

    /// If the set at `place` is full, prefetches the other set that [`Self::get`] reads for a piece.
    #[inline]
    pub(crate) fn prefetch_other(&self, place: u32, key: Key) {
        if self.is_full(place) {
            self.prefetch(self.other_place(key));
        }
    }

    /// Whether a set is full; as long as it is not, none of its pieces are in another set.
    #[inline]
    fn is_full(&self, place: u32) -> bool {
        self.memory.lines().get(place as usize).is_some_and(is_full)
    }

    /// Stores the ids of a piece, or that they are too many.
    pub(crate) fn insert(&mut self, key: Key, ids: &[u32]) {
        let next = if ids.len() > MOST { 0 } else { ids.len() as u64 + 1 };
        let id = |index: usize| u64::from(ids.get(index).copied().unwrap_or(0));
        let high = key.high & !SPARE | next << COUNT;
        let entry = [key.low, high, id(0) | id(1) << 32, id(2) | id(3) << 32];
        self.put(key, &entry.map(u64::to_le_bytes));
        self.written += 1;
    }

    /// Stores an entry as the more recent one of its set.
    fn put(&mut self, key: Key, entry: &[Word; ENTRY]) {
        let (place, other) = (self.place(key) as usize, self.other_place(key) as usize);
        let sets = self.memory.lines_mut();
        let place = if is_full(&sets[place]) && !is_full(&sets[other]) { other } else { place };
        let set = &mut sets[place];
        set.copy_within(..ENTRY, ENTRY);
        set[..ENTRY].copy_from_slice(entry);
    }
}

/// Whether a set is full.
#[inline]
fn is_full(set: &Line) -> bool {
    set[ENTRY + 1] != Word::default()
}

/// The sets of a cache, borrowed for many look-ups.
#[derive(Clone, Copy)]
pub(crate) struct Sets<'a>(&'a [Line]);

impl Sets<'_> {
    /// The ids of the piece, if it is in the set at `place`.
    #[inline]
    pub(crate) fn get(self, place: u32, key: Key) -> Option<Found> {
        let set = self.0.get(place as usize)?;
        let word = |at: usize| u64::from_le_bytes(set[at]);
        // The spare bits of the key are zeros, so the spare bits of the difference are those of the entry.
        let differs = |entry: usize| [key.low ^ word(entry), key.high ^ word(entry + 1)];
        let is = |[low, high]: [u64; 2]| low | high << (u64::BITS - COUNT) == 0;
        // The entry is chosen by an index instead of a branch: which of the two it is cannot be predicted.
        let entry = usize::from(!is(differs(0))) * ENTRY;
        let difference = differs(entry);
        let ids = [word(entry + 2), word(entry + 3)];
        is(difference).then_some(Found { ids, next: (difference[1] >> COUNT) as usize })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn what_is_found_is_what_was_remembered(
            bytes in 0..8192_usize,
            pieces in prop::collection::vec(("[a-d]{1,4}", any::<bool>(), 0..7_usize), 0..400),
        ) {
            let mut cache = PieceCache::new(bytes);
            let mut known = HashMap::new();
            for (number, (text, part, count)) in (0_u32..).zip(&pieces) {
                let key = Key::of(text.as_bytes()).expect("a short piece");
                let key = if *part { key.part() } else { key };
                let ids = known.entry((text, part)).or_insert_with(|| vec![number; *count]);
                if let Some(found) = cache.get(key) {
                    prop_assert_eq!(found.is_whole(), ids.len() <= MOST);
                    let expected = if found.is_whole() { ids.as_slice() } else { &[] };
                    prop_assert!(found.ids().eq(expected.iter().copied()));
                    prop_assert_eq!(found.count(), expected.len());
                } else {
                    cache.insert(key, ids);
                    prop_assert!(cache.get(key).is_some());
                }
                cache.grow(usize::MAX);
            }
            prop_assert!(size_of_val(cache.memory.lines()) <= bytes.max(size_of::<Line>()));
        }
    }

    #[test]
    fn few_pieces_are_forgotten_while_half_of_the_places_are_free() {
        let mut cache = PieceCache::new(SMALLEST);
        let pieces = u32::try_from(cache.sets).expect("a small cache");
        let key = |number: u32| Key::of(format!("piece {number}").as_bytes()).expect("it is short");
        for number in 0..pieces {
            cache.insert(key(number), &[number]);
        }
        let kept = (0..pieces).filter(|number| cache.get(key(*number)).is_some()).count();
        // Without the second set, one in ten would be missing.
        assert!(kept * 100 >= pieces as usize * 97, "{kept} of {pieces}");
    }

    #[test]
    fn a_cache_keeps_what_it_knows_when_it_grows() {
        let mut cache = PieceCache::new(SMALLEST * GROWTH);
        let (mut number, before) = (0, cache.sets);
        let key = |number: u32| Key::of(format!("piece {number}").as_bytes()).expect("it is short");
        let count = |cache: &PieceCache, number: u32| {
            (0..number).filter(|it| cache.get(key(*it)).is_some()).count()
        };
        let mut kept = 0;
        while cache.sets == before {
            for _ in 0..997 {
                cache.insert(key(number), &[number]);
                number += 1;
            }
            kept = count(&cache, number);
            cache.grow(usize::MAX);
        }
        let still = count(&cache, number);
        assert!(still * 1000 >= kept * 999, "{still} of {kept}");
    }
}
