//! [`PieceTable`]: the ids of short pieces with at most four ids, which threads read and fill at the same time.
//!
//! Two entries share a cache line. An entry is written once and never changed, so a look-up takes no lock: the word
//! with the length of the piece is written last, and read first.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::key::{PieceKey, SPARE};
use super::mapped_memory::{LARGE, LineMemory, SharedLine, SharedLines};
use crate::hardware::AHEAD;

/// The most ids that an entry holds.
pub(crate) const MOST: usize = 4;

/// Words of one entry: the key, and four ids. The spare bits of the key hold the number of ids plus one, or 0
/// if the ids are too many and in the cache of long pieces. An entry of zeros is free.
const ENTRY: usize = 4;

/// The left shift of that number.
const COUNT: u32 = SPARE.trailing_zeros();

/// The second word of an entry that is being written; no piece of text has this key.
const WRITING: u64 = u64::MAX;

/// The number of sets where a piece can be if its first one is full.
const OTHERS: u64 = 8;

/// The fewest pieces with which the last table is full, so that a tiny one is not replaced after each batch.
const FEWEST: usize = 1024;

/// The ids of a piece in a table.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FoundIds {
    /// The ids, two in each word.
    ids: [u64; 2],
    /// The number of ids plus one, or 0 if the cache of long pieces has the ids.
    next: usize,
}

impl FoundIds {
    /// True if the ids are here; if not, the cache of long pieces has them.
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

    /// The entry of the piece with these ids.
    pub(super) fn entry(self, key: PieceKey) -> Entry {
        let [first, second] = self.ids;
        [key.low, key.high & !SPARE | (self.next as u64) << COUNT, first, second]
    }

    /// The ids.
    #[inline]
    pub(crate) fn ids(self) -> impl Iterator<Item = u32> {
        self.all().into_iter().take(self.count())
    }
}

/// The words of an entry.
type Entry = [u64; ENTRY];

/// The entry of a piece.
pub(super) fn entry(key: PieceKey, ids: &[u32]) -> Entry {
    let next = if ids.len() > MOST { 0 } else { ids.len() as u64 + 1 };
    let id = |index: usize| u64::from(ids.get(index).copied().unwrap_or(0));
    [key.low, key.high & !SPARE | next << COUNT, id(0) | id(1) << 32, id(2) | id(3) << 32]
}

/// A table of a fixed size.
///
/// A set is a cache line of two entries. If the set of a piece is full, the piece goes to another set, or to one of
/// those behind that. With a second set alone, 2 % of the pieces found no entry when half of them were taken, and the
/// frequent ones among these were learned again and again.
pub(super) struct PieceTable {
    memory: SharedLines,
    sets: u64,
    /// The number of pieces with which the table is full.
    limit: usize,
    /// The number of pieces that were to be stored, as far as the threads have told it.
    stored: PaddedCounter,
}

/// A number that is written often, on a cache line of its own, apart from data that are only read.
#[derive(Default)]
#[repr(align(128))]
struct PaddedCounter(AtomicUsize);

impl PieceTable {
    /// A table of at most `bytes`, but of one set at least. It is full when half of its entries are taken, or as many as
    /// find a free one easily if it `is_last`.
    pub(super) fn new(bytes: usize, is_last: bool) -> io::Result<Self> {
        // The system maps memory where a large page begins if it is so many large pages.
        let bytes = if bytes < LARGE { bytes } else { bytes - bytes % LARGE };
        let sets = (bytes / size_of::<SharedLine>()).clamp(1, 1 << 31);
        let limit = if is_last { (sets + sets / 2).max(FEWEST) } else { sets };
        let memory = LineMemory::new(sets)?.shared();
        Ok(Self { memory, sets: sets as u64, limit, stored: PaddedCounter::default() })
    }

    /// The size in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.memory.lines())
    }

    /// Counts pieces that were to be stored.
    pub(super) fn count(&self, stored: usize) {
        self.stored.0.fetch_add(stored, Ordering::Relaxed);
    }

    /// True if another table is to take the place of this one.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.stored.0.load(Ordering::Relaxed) > self.limit
    }

    /// The set of a key.
    #[inline]
    pub(super) fn place(&self, key: PieceKey) -> u32 {
        (((key.hash() >> 32) * self.sets) >> 32) as u32
    }

    /// The sets of a key after its first one; as long as a set is not full, no piece is in a later one.
    #[inline]
    fn other_places(&self, key: PieceKey) -> impl Iterator<Item = u32> + use<> {
        let (sets, hash) = (self.sets, key.hash() & u64::from(u32::MAX));
        #[expect(clippy::cast_possible_truncation, reason = "there are at most 2^31 sets")]
        let place = move |more: u64| ((((hash * sets) >> 32) + more) % sets) as u32;
        (0..OTHERS).map(place)
    }

    /// Prefetches a set into the first-level cache.
    #[inline]
    pub(super) fn prefetch(&self, place: u32) {
        self.memory.prefetch(place as usize);
    }

    /// If the set at `place` is full, prefetches the next set that [`Self::get`] reads for a piece.
    #[inline]
    pub(super) fn prefetch_other(&self, place: u32, key: PieceKey) {
        if self.is_set_full(place) {
            self.other_places(key).take(1).for_each(|place| self.prefetch(place));
        }
    }

    /// True if a set is full.
    #[inline]
    fn is_set_full(&self, place: u32) -> bool {
        let set = self.memory.lines().get(place as usize);
        set.is_some_and(|set| set[ENTRY + 1].load(Ordering::Relaxed) != 0)
    }

    /// The sets, for look-ups.
    #[inline]
    pub(super) fn sets(&self) -> Sets<'_> {
        Sets(self.memory.lines())
    }

    /// The ids of the piece, if it is in the table.
    #[inline]
    pub(super) fn get(&self, key: PieceKey) -> Option<FoundIds> {
        let mut place = self.place(key);
        let mut others = self.other_places(key);
        loop {
            let found = self.sets().get(place, key);
            if found.is_some() || !self.is_set_full(place) {
                return found;
            }
            place = others.next()?;
        }
    }

    /// Stores an entry, unless its piece has one or finds no free one.
    pub(super) fn insert(&self, key: PieceKey, entry: Entry) {
        let [low, high, first, second] = entry;
        for place in std::iter::once(self.place(key)).chain(self.other_places(key)) {
            for known in self.memory.lines()[place as usize].as_chunks::<ENTRY>().0 {
                // An exchange takes the line away from other threads, also where it fails.
                let taken = match known[1].load(Ordering::Relaxed) {
                    0 => {
                        known[1].compare_exchange(0, WRITING, Ordering::Relaxed, Ordering::Relaxed)
                    }
                    taken => Err(taken),
                };
                match taken {
                    Ok(_) => {
                        known[0].store(low, Ordering::Relaxed);
                        known[2].store(first, Ordering::Relaxed);
                        known[3].store(second, Ordering::Relaxed);
                        known[1].store(high, Ordering::Release);
                        return;
                    }
                    // Another thread writes, perhaps the same piece.
                    Err(WRITING) => return,
                    Err(taken) if taken == high && known[0].load(Ordering::Relaxed) == low => {
                        return;
                    }
                    Err(_) => {}
                }
            }
        }
    }

    /// Stores the entries of another table.
    pub(super) fn insert_all(&self, other: &Self) {
        let entries = other.memory.lines().as_flattened().as_chunks::<ENTRY>().0.iter();
        let keyed = entries.filter_map(|[low, high, first, second]| {
            let high = high.load(Ordering::Acquire);
            let [low, first, second] =
                [low, first, second].map(|word| word.load(Ordering::Relaxed));
            let stored = || (PieceKey::stored(low, high), [low, high, first, second]);
            (high != 0 && high != WRITING).then(stored)
        });
        let mut ahead = keyed.clone().skip(AHEAD);
        let mut stored = 0;
        for (key, entry) in keyed {
            if let Some((next, _)) = ahead.next() {
                self.prefetch(self.place(next));
            }
            self.insert(key, entry);
            stored += 1;
        }
        self.count(stored);
    }
}

/// The sets of a table, borrowed for many look-ups.
#[derive(Clone, Copy)]
pub(crate) struct Sets<'a>(&'a [SharedLine]);

impl Sets<'_> {
    /// The ids of the piece, if it is in the set at `place`.
    #[inline]
    pub(crate) fn get(self, place: u32, key: PieceKey) -> Option<FoundIds> {
        let set = self.0.get(place as usize)?;
        // The spare bits of the key are zeros, so the spare bits of the difference are those of the entry.
        let differs = |entry: usize, order: Ordering| {
            let high = key.high ^ set[entry + 1].load(order);
            [key.low ^ set[entry].load(Ordering::Relaxed), high]
        };
        let is = |[low, high]: [u64; 2]| low | high << (u64::BITS - COUNT) == 0;
        // The entry is chosen by an index instead of a branch: which of the two it is cannot be predicted.
        let entry = usize::from(!is(differs(0, Ordering::Relaxed))) * ENTRY;
        let difference = differs(entry, Ordering::Acquire);
        let ids = [2, 3].map(|word| set[entry + word].load(Ordering::Relaxed));
        is(difference).then_some(FoundIds { ids, next: (difference[1] >> COUNT) as usize })
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// The key of a number, and the ids that belong to it.
    fn piece(number: u32) -> (PieceKey, Vec<u32>) {
        let key = PieceKey::of(format!("piece {number}").as_bytes()).expect("it is short");
        (key, (0..number % 6).map(|id| number * 8 + id).collect())
    }

    #[test]
    fn few_pieces_are_forgotten_until_a_table_is_full() {
        let table = PieceTable::new(1 << 18, true).expect("the system has memory");
        let mut count = 0;
        while !table.is_full() {
            let (key, ids) = piece(count);
            table.insert(key, entry(key, &ids));
            table.count(1);
            count += 1;
        }
        let kept = (0..count).filter(|number| table.get(piece(*number).0).is_some()).count();
        // With one other set, one in twelve would be missing.
        assert!(kept * 1000 >= count as usize * 998, "{kept} of {count}");
    }

    #[test]
    fn what_one_thread_stores_every_other_finds_whole_or_not_at_all() {
        let table = PieceTable::new(1 << 21, true).expect("the system has memory");
        let count = 30_000;
        thread::scope(|scope| {
            for step in [1_u32, 7, 11, 13] {
                let table = &table;
                scope.spawn(move || {
                    for at in 0..count {
                        let (key, ids) = piece(at * step % count);
                        let Some(found) = table.get(key) else {
                            table.insert(key, entry(key, &ids));
                            continue;
                        };
                        assert_eq!(found.is_whole(), ids.len() <= MOST, "{at} {step}");
                        let kept = if found.is_whole() { ids.as_slice() } else { &[] };
                        assert!(found.ids().eq(kept.iter().copied()), "{at} {step}");
                    }
                });
            }
        });
        let known = (0..count).filter(|number| table.get(piece(*number).0).is_some()).count();
        assert!(known * 100 >= count as usize * 98, "{known} of {count}");
    }
}
