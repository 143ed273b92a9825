//! What a thread has seen: short pieces of at most four ids, two to a cache line.

use std::io;

use super::key::{Key, SPARE};
use super::memory::{Line, LineMemory, Word};
use crate::machine::AHEAD;

/// The most ids that an entry holds.
pub(crate) const MOST: usize = 4;

/// Words of one entry: the key, and four ids. The spare bits of the key are one more than the number of ids, or 0 where
/// they are too many and in the cache of long pieces. An entry of zeros is free.
const ENTRY: usize = 4;

/// How far that number is shifted.
const COUNT: u32 = SPARE.trailing_zeros();

/// An answer of the cache.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    /// Two a word.
    ids: [u64; 2],
    /// One more than how many of them count, or 0.
    next: usize,
}

impl Found {
    /// Whether the ids are here; else the cache of long pieces has them.
    #[inline]
    pub(crate) fn is_whole(self) -> bool {
        self.next > 0
    }

    /// How many ids are here.
    #[inline]
    pub(crate) fn count(self) -> usize {
        self.next.saturating_sub(1)
    }

    /// The ids, and anything behind them.
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

/// A cache starts with this many bytes, so that short uses touch little memory.
const SMALLEST: usize = 1 << 18;

/// How many times as large a cache that is full becomes: what follows the smallest is of large pages, of which a few take
/// less time than many small ones.
const GROWTH: usize = 16;

/// A bounded table from short pieces to their ids.
///
/// A set is a line of two entries, the more recent one first. A piece that finds no room in its set goes to another one,
/// if there is room: without that, 2 % of the words of several tokens were not there when 30 MB of English came a second
/// time, though most places were free (llama3, 2026-11-22).
pub(crate) struct PieceCache {
    memory: LineMemory,
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
        let sets = (bytes / size_of::<Line>()).clamp(1, 1 << 31);
        Ok(Self { memory: LineMemory::new(sets)?, sets: sets as u64, written: 0, most_bytes })
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
        let bytes = size_of_val(self.memory.lines());
        if bytes * 4 > self.most_bytes * 3 || bytes + size_of::<Line>() > self.most_bytes {
            return;
        }
        // Where there is no more memory, the cache stays as it is.
        let Ok(larger) = Self::of_size(self.most_bytes.min(bytes * GROWTH), self.most_bytes) else {
            return;
        };
        let old = std::mem::replace(self, larger);
        // The older entry of a set goes first, so that it stays the older one.
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

    /// Has a set brought into the first-level cache.
    #[inline]
    pub(crate) fn prefetch(&self, place: u32) {
        self.memory.prefetch(place as usize);
    }

    /// Which set a key is in.
    #[inline]
    pub(crate) fn place(&self, key: Key) -> u32 {
        (((key.hash() >> 32) * self.sets) >> 32) as u32
    }

    /// Which set a key is in if it found no room in that one.
    #[inline]
    fn other_place(&self, key: Key) -> u32 {
        (((key.hash() & u64::from(u32::MAX)) * self.sets) >> 32) as u32
    }

    /// The table as it is now.
    #[inline]
    pub(crate) fn sets(&self) -> Sets<'_> {
        Sets(self.memory.lines())
    }

    /// The ids of the piece, if it is there.
    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<Found> {
        let place = self.place(key);
        let elsewhere = || self.sets().get(self.other_place(key), key);
        self.sets().get(place, key).or_else(|| self.is_full(place).then(elsewhere).flatten())
    }

    /// Has the other set brought near that [`Self::get`] looks at for a piece that is not in the one at `place`.
    #[inline]
    pub(crate) fn prefetch_other(&self, place: u32, key: Key) {
        if self.is_full(place) {
            self.prefetch(self.other_place(key));
        }
    }

    /// Whether a set has no room; until then no piece went from it to another one.
    #[inline]
    fn is_full(&self, place: u32) -> bool {
        self.memory.lines().get(place as usize).is_some_and(is_full)
    }

    /// Remembers the ids of a piece, or that they are too many.
    pub(crate) fn insert(&mut self, key: Key, ids: &[u32]) {
        let next = if ids.len() > MOST { 0 } else { ids.len() as u64 + 1 };
        let id = |index: usize| u64::from(ids.get(index).copied().unwrap_or(0));
        let high = key.high & !SPARE | next << COUNT;
        let entry = [key.low, high, id(0) | id(1) << 32, id(2) | id(3) << 32];
        self.put(key, &entry.map(u64::to_le_bytes));
        self.written += 1;
    }

    /// Makes an entry the more recent one of a set.
    fn put(&mut self, key: Key, entry: &[Word; ENTRY]) {
        let (place, other) = (self.place(key) as usize, self.other_place(key) as usize);
        let sets = self.memory.lines_mut();
        let place = if is_full(&sets[place]) && !is_full(&sets[other]) { other } else { place };
        let set = &mut sets[place];
        set.copy_within(..ENTRY, ENTRY);
        set[..ENTRY].copy_from_slice(entry);
    }
}

/// Whether a set has no room.
#[inline]
fn is_full(set: &Line) -> bool {
    set[ENTRY + 1] != Word::default()
}

/// The table, to be looked at many times.
#[derive(Clone, Copy)]
pub(crate) struct Sets<'a>(&'a [Line]);

impl Sets<'_> {
    /// The ids of the piece, if it is there.
    #[inline]
    pub(crate) fn get(self, place: u32, key: Key) -> Option<Found> {
        let set = self.0.get(place as usize)?;
        let word = |at: usize| u64::from_le_bytes(set[at]);
        // The spare bits of the key are zeros, so those of the difference are the entry's.
        let differs = |entry: usize| [key.low ^ word(entry), key.high ^ word(entry + 1)];
        let is = |[low, high]: [u64; 2]| low | high << (u64::BITS - COUNT) == 0;
        // An address instead of a branch: which of the two it is cannot be predicted.
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
                cache.grow();
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
        // One in ten would be without the second place.
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
            cache.grow();
        }
        let still = count(&cache, number);
        assert!(still * 1000 >= kept * 999, "{still} of {kept}");
    }
}
