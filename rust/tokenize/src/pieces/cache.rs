//! [`PieceCache`]: the cache of short pieces that all threads of a tokenizer read and fill.
//!
//! A piece that one thread has learned is new to no other. The pieces are in a [`PieceTable`]. When it is half full, a thread
//! copies it into a larger one and publishes that; the others go on with the old one until their next batch. The largest
//! table is not copied: an empty one takes its place, and pieces that are asked for again move over from the old one.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use super::key::PieceKey;
use super::piece_table::{FoundIds, PieceTable, Sets, entry};

/// The size of a first table in bytes, so that short runs touch little memory.
const SMALLEST: usize = 1 << 18;

/// The factor by which a table grows: all sizes but the smallest use large pages, and a few of these take less time
/// than many small ones.
const GROWTH: usize = 16;

/// The number of pieces after which a thread adds its count to the table's.
const COUNTED_AT_ONCE: usize = 64;

/// The version of tables that no other thread has.
const NONE: usize = usize::MAX;

/// The tables of a cache.
#[derive(Clone)]
struct CacheTables {
    newest: Arc<PieceTable>,
    /// The full table before the newest one.
    older: Option<Arc<PieceTable>>,
    /// The number of new tables so far.
    version: usize,
}

impl CacheTables {
    /// A first table; later ones have at most `most` bytes.
    fn new(most: usize) -> io::Result<Self> {
        Ok(Self { newest: Arc::new(of_size(most.min(SMALLEST), most)?), older: None, version: 0 })
    }

    /// The tables after these.
    fn next(&self, most: usize) -> io::Result<Self> {
        let bytes = self.newest.bytes();
        let (newest, older) = if is_last(bytes, most) {
            (of_size(bytes, most)?, Some(Arc::clone(&self.newest)))
        } else {
            let table = of_size(most.min(bytes * GROWTH), most)?;
            table.insert_all(&self.newest);
            (table, None)
        };
        Ok(Self { newest: Arc::new(newest), older, version: self.version + 1 })
    }
}

/// True if no larger table comes after one of `bytes`.
fn is_last(bytes: usize, most: usize) -> bool {
    bytes * 4 > most * 3
}

fn of_size(bytes: usize, most: usize) -> io::Result<PieceTable> {
    PieceTable::new(bytes, is_last(bytes, most))
}

/// A cache, as all threads see it.
#[derive(Default)]
pub(crate) struct SharedCache {
    /// The tables, once there is a thread.
    tables: Mutex<Option<CacheTables>>,
    version: AtomicUsize,
    threads: AtomicUsize,
    /// The most bytes of a table.
    most: usize,
}

impl SharedCache {
    /// A cache of at most `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        // There can be two tables.
        Self { most: bytes / 2, ..Self::default() }
    }

    /// The most bytes of the tables.
    #[cfg(test)]
    pub(crate) fn most_bytes(&self) -> usize {
        2 * self.most
    }

    /// The tables, unless another thread has the lock.
    ///
    /// A thread that does not get it at once uses the table that it has. So does the child of a process that was forked
    /// while a thread had it.
    fn tables(&self) -> Option<MutexGuard<'_, Option<CacheTables>>> {
        match self.tables.try_lock() {
            Ok(tables) => Some(tables),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn first(&self) -> CacheTables {
        CacheTables::new(self.most).expect("the system has memory")
    }
}

/// A cache, as one thread sees it.
pub(crate) struct PieceCache {
    tables: CacheTables,
    shared: Arc<SharedCache>,
    /// The number of pieces that this thread stored in the newest table since it last told it.
    stored: usize,
}

impl PieceCache {
    /// The part of one thread in a cache.
    pub(crate) fn new(shared: &Arc<SharedCache>) -> Self {
        shared.threads.fetch_add(1, Ordering::Relaxed);
        let tables = match shared.tables() {
            Some(mut tables) => tables.get_or_insert_with(|| shared.first()).clone(),
            None => CacheTables { version: NONE, ..shared.first() },
        };
        Self { tables, shared: Arc::clone(shared), stored: 0 }
    }

    /// The number of threads that have a part in the cache.
    pub(crate) fn threads(&self) -> usize {
        self.shared.threads.load(Ordering::Relaxed)
    }

    /// Takes the newest tables, and adds one if that is full. Set numbers from before are then invalid.
    #[inline]
    pub(crate) fn renew(&mut self) {
        if self.stored >= COUNTED_AT_ONCE {
            self.tables.newest.count(std::mem::take(&mut self.stored));
        }
        let is_old = self.shared.version.load(Ordering::Relaxed) != self.tables.version;
        if is_old || self.tables.newest.is_full() {
            self.turn();
        }
    }

    #[cold]
    fn turn(&mut self) {
        let Some(mut tables) = self.shared.tables() else { return };
        let tables = tables.get_or_insert_with(|| self.shared.first());
        if tables.newest.is_full() {
            // Without more memory, the cache stays as it is.
            if let Ok(next) = tables.next(self.shared.most) {
                self.shared.version.store(next.version, Ordering::Relaxed);
                *tables = next;
            }
        }
        self.tables.clone_from(tables);
    }

    /// Prefetches a set into the first-level cache.
    #[inline]
    pub(crate) fn prefetch(&self, place: u32) {
        self.tables.newest.prefetch(place);
    }

    /// The set of a key.
    #[inline]
    pub(crate) fn place(&self, key: PieceKey) -> u32 {
        self.tables.newest.place(key)
    }

    /// The current sets, for look-ups.
    #[inline]
    pub(crate) fn sets(&self) -> Sets<'_> {
        self.tables.newest.sets()
    }

    /// Prefetches the memory that [`Self::get`] reads for a piece that is not in its set at `place`.
    #[inline]
    pub(crate) fn prefetch_other(&self, place: u32, key: PieceKey) {
        self.tables.newest.prefetch_other(place, key);
        if let Some(older) = &self.tables.older {
            older.prefetch(older.place(key));
        }
    }

    /// The ids of the piece, if it is in the cache.
    #[inline]
    pub(crate) fn get(&mut self, key: PieceKey) -> Option<FoundIds> {
        let found = self.tables.newest.get(key);
        if found.is_some() { found } else { self.get_older(key) }
    }

    /// The ids of the piece, if it is in the older table. It is stored in the newest one, too.
    #[inline]
    fn get_older(&mut self, key: PieceKey) -> Option<FoundIds> {
        let found = self.tables.older.as_ref()?.get(key)?;
        self.tables.newest.insert(key, found.entry(key));
        self.stored += 1;
        Some(found)
    }

    /// Stores the ids of a piece, or that they are too many.
    pub(crate) fn insert(&mut self, key: PieceKey, ids: &[u32]) {
        self.tables.newest.insert(key, entry(key, ids));
        self.stored += 1;
    }
}

impl Drop for PieceCache {
    fn drop(&mut self) {
        self.shared.threads.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::thread;

    use proptest::prelude::*;

    use super::super::piece_table::MOST;
    use super::*;

    /// The key of a number.
    fn key(number: u32) -> PieceKey {
        PieceKey::of(format!("piece {number}").as_bytes()).expect("it is short")
    }

    /// Bytes of the tables that a thread sees.
    fn bytes(cache: &PieceCache) -> usize {
        let CacheTables { newest, older, .. } = &cache.tables;
        newest.bytes() + older.as_ref().map_or(0, |older| older.bytes())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn what_is_found_is_what_was_remembered(
            most in 0..8192_usize,
            pieces in prop::collection::vec(("[a-d]{1,4}", any::<bool>(), 0..7_usize, 0..2_usize), 0..400),
        ) {
            let shared = Arc::new(SharedCache::new(most));
            let mut caches = [(); 2].map(|()| PieceCache::new(&shared));
            let mut known = HashMap::new();
            for (number, (text, part, count, who)) in (0_u32..).zip(&pieces) {
                let cache = &mut caches[*who];
                let key = PieceKey::of(text.as_bytes()).expect("a short piece");
                let key = if *part { key.part() } else { key };
                let ids = known.entry((text, part)).or_insert_with(|| vec![number; *count]);
                if let Some(found) = cache.get(key) {
                    prop_assert_eq!(found.is_whole(), ids.len() <= MOST);
                    let expected = if found.is_whole() { ids.as_slice() } else { &[] };
                    prop_assert!(found.ids().eq(expected.iter().copied()));
                    prop_assert_eq!(found.count(), expected.len());
                } else {
                    cache.insert(key, ids);
                }
                cache.renew();
                prop_assert!(bytes(cache) <= most.max(2 * 64));
            }
        }
    }

    #[test]
    fn a_cache_keeps_what_it_knows_when_it_grows_and_forgets_the_older_half_when_it_is_full() {
        let shared = Arc::new(SharedCache::new(2 * GROWTH * SMALLEST));
        let mut cache = PieceCache::new(&shared);
        let mut number = 0;
        for version in 0..3 {
            let mut before = cache.tables.clone();
            while cache.tables.version == version {
                for _ in 0..997 {
                    cache.insert(key(number), &[number]);
                    number += 1;
                }
                before = cache.tables.clone();
                cache.renew();
            }
            let count = |tables: &CacheTables| {
                let holds = |table: &Arc<PieceTable>, number| table.get(key(number)).is_some();
                let known = |number: &u32| {
                    let older = || tables.older.as_ref().is_some_and(|older| holds(older, *number));
                    holds(&tables.newest, *number) || older()
                };
                (0..number).filter(known).count()
            };
            let (kept, still) = (count(&before), count(&cache.tables));
            if version < 2 {
                assert!(still * 1000 >= kept * 999, "{still} of {kept}");
            } else {
                assert!((kept / 3..kept * 2 / 3).contains(&still), "{still} of {kept}");
            }
        }
        assert_eq!(bytes(&cache), 2 * GROWTH * SMALLEST);
        let holds = |cache: &PieceCache| cache.tables.newest.get(key(number - 1)).is_some();
        assert!(!holds(&cache));
        assert!(cache.get(key(number - 1)).is_some());
        assert!(holds(&cache), "what was asked for is in the newest table");
    }

    #[test]
    fn threads_learn_from_each_other_while_the_tables_change() {
        let shared = Arc::new(SharedCache::new(8 * SMALLEST));
        let (threads, pieces) = (4, 60_000_u32);
        let learned: u32 = thread::scope(|scope| {
            let run = |from: u32| {
                let mut cache = PieceCache::new(&shared);
                let mut learned = 0;
                for number in (0..pieces).map(|at| (at + from) % pieces) {
                    if let Some(found) = cache.get(key(number)) {
                        assert!(found.ids().eq([number]));
                    } else {
                        cache.insert(key(number), &[number]);
                        learned += 1;
                    }
                    if number % 512 == 0 {
                        cache.renew();
                    }
                }
                learned
            };
            let runs: Vec<_> = (0..threads).map(|of| scope.spawn(move || run(of * 7))).collect();
            runs.into_iter().map(|run| run.join().expect("it ends")).sum()
        });
        assert!(learned < threads * pieces, "{learned}");
        assert_eq!(shared.threads.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_thread_that_cannot_get_the_lock_goes_on_with_a_table_of_its_own() {
        let shared = Arc::new(SharedCache::new(8 * SMALLEST));
        let held = shared.tables().expect("nobody else has it");
        let mut cache = PieceCache::new(&shared);
        for number in 0..100_000 {
            cache.insert(key(number), &[number]);
            cache.renew();
        }
        assert!(cache.get(key(1)).is_some());
        drop(held);
        cache.renew();
        assert!(cache.get(key(1)).is_none(), "it sees what the others see");
        cache.insert(key(1), &[1]);
        assert!(PieceCache::new(&shared).get(key(1)).is_some());
    }
}
