//! The cache of short pieces that all threads of a tokenizer read and fill.
//!
//! A piece that one thread has learned is new to no other. Entries are written once and never changed, so a look-up
//! takes no lock: the word with the length of the piece is written last, and read first.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::cache::{COUNT, Found, MOST};
use super::key::{Key, SPARE};
use crate::machine::{prefetch, with_room};

/// The number of entries. English text of 25 MB has some 200,000 different short pieces.
const ENTRIES: usize = 1 << 19;

/// The entries among which a piece is looked for: those of one cache line.
const SET: usize = 2;

/// The second word of an entry that is being written; no piece of text has this key.
const WRITING: u64 = u64::MAX;

/// Bytes of the caches of all threads together, besides this one.
const ALL_THREADS: usize = 224 << 20;

/// An entry, as in the cache of one thread: the key with the number of ids, and the ids.
#[derive(Default)]
#[repr(align(32))]
struct Entry([AtomicU64; 4]);

/// The pieces that the threads of one tokenizer have learned.
#[derive(Default)]
pub(crate) struct Shared {
    /// The entries, from the time at which there is a second thread.
    entries: OnceLock<Vec<Entry>>,
    threads: AtomicUsize,
}

impl Shared {
    /// Adds a thread.
    pub(crate) fn enter(&self) {
        if self.threads.fetch_add(1, Ordering::Relaxed) == 1 {
            self.entries.get_or_init(|| {
                let mut entries = with_room(ENTRIES);
                entries.resize_with(ENTRIES, Entry::default);
                entries
            });
        }
    }

    /// Removes a thread.
    pub(crate) fn leave(&self) {
        self.threads.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether there are several threads.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.threads.load(Ordering::Relaxed) > 1
    }

    /// Bytes that the caches of one thread may take, so that many threads need no more than a few.
    pub(crate) fn room(&self) -> usize {
        ALL_THREADS / self.threads.load(Ordering::Relaxed).max(1)
    }

    fn set(&self, key: Key) -> &[Entry] {
        let Some(entries) = self.entries.get() else { return &[] };
        let sets = (ENTRIES / SET) as u64;
        let set = (((key.hash() >> 32) * sets) >> 32) as usize;
        &entries[set * SET..(set + 1) * SET]
    }

    /// Prefetches the entries of a piece.
    #[inline]
    pub(crate) fn prefetch(&self, key: Key) {
        prefetch(self.set(key).as_ptr());
    }

    /// The ids of a piece, if a thread has stored them.
    pub(crate) fn get(&self, key: Key) -> Option<Found> {
        for Entry([low, high, ids @ ..]) in self.set(key) {
            let word = high.load(Ordering::Acquire);
            if word == 0 {
                break;
            }
            if word != WRITING
                && word & !SPARE == key.high
                && low.load(Ordering::Relaxed) == key.low
            {
                let ids = ids.each_ref().map(|word| word.load(Ordering::Relaxed));
                return Some(Found::new(ids, word));
            }
        }
        None
    }

    /// Stores the ids of a piece, if they are few and there is a free entry.
    pub(crate) fn insert(&self, key: Key, ids: &[u32]) {
        if ids.len() > MOST {
            return;
        }
        let word = key.high & !SPARE | (ids.len() as u64 + 1) << COUNT;
        for Entry([low, high, rest @ ..]) in self.set(key) {
            match high.compare_exchange(0, WRITING, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    let id = |index: usize| u64::from(ids.get(index).copied().unwrap_or(0));
                    low.store(key.low, Ordering::Relaxed);
                    for (place, word) in rest.iter().enumerate() {
                        word.store(id(2 * place) | id(2 * place + 1) << 32, Ordering::Relaxed);
                    }
                    high.store(word, Ordering::Release);
                    return;
                }
                Err(WRITING) => return,
                Err(other) if other == word && low.load(Ordering::Relaxed) == key.low => return,
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// The key of a number, and the ids that belong to it.
    fn piece(number: u32) -> (Key, Vec<u32>) {
        let key = Key::of(format!("piece {number}").as_bytes()).expect("it is short");
        (key, (0..number % 6).map(|id| number * 8 + id).collect())
    }

    #[test]
    fn what_one_thread_stores_every_other_finds_whole_or_not_at_all() {
        let shared = Shared::default();
        shared.enter();
        assert!(!shared.is_used());
        shared.insert(piece(1).0, &[1]);
        assert!(shared.get(piece(1).0).is_none(), "one thread has no use for it");
        shared.enter();
        assert!(shared.is_used());
        let count = 40_000;
        thread::scope(|scope| {
            for step in [1_u32, 7, 11, 13] {
                let shared = &shared;
                scope.spawn(move || {
                    for at in 0..count {
                        let (key, ids) = piece(at * step % count);
                        if let Some(found) = shared.get(key) {
                            assert!(found.ids().eq(ids.iter().copied()), "{at} {step}");
                        } else {
                            shared.insert(key, &ids);
                        }
                    }
                });
            }
        });
        let known = (0..count).filter(|number| shared.get(piece(*number).0).is_some()).count();
        let short = (0..count).filter(|number| number % 6 <= 4).count();
        assert!(known <= short && known * 100 >= short * 98, "{known} of {short}");
        shared.leave();
        assert!(!shared.is_used());
    }

    #[test]
    fn many_threads_have_little_room_each() {
        let shared = Shared::default();
        (0..64).for_each(|_| shared.enter());
        assert!(shared.room() * 64 + ENTRIES * size_of::<Entry>() <= 300 << 20);
    }
}
