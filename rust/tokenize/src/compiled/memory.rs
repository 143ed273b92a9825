//! What one thread writes to while it encodes.

use std::fmt;

use super::normalize::Normalized;
use crate::merge::{Buckets, Symbol};
use crate::pieces::{Key, LONGEST, LongCache, MOST, PieceCache};

/// Pieces that are cut and looked up together: enough for a prefetch to arrive, few enough to stay in the first-level
/// cache.
pub(super) const BATCH: usize = 256;

/// The share of a thread's cache that long pieces get.
const LONG_SHARE: usize = 8;

/// A piece between the two passes over a batch.
#[derive(Clone, Copy, Default)]
pub(super) struct Waiting {
    pub(super) key: Key,
    pub(super) place: u32,
}

/// Caches and scratch of one thread.
pub(crate) struct Memory {
    pub(super) short: PieceCache,
    pub(super) long: LongCache,
    pub(super) buckets: Buckets,
    pub(super) word: Vec<Symbol>,
    /// The word before it was merged.
    pub(super) start: Vec<Symbol>,
    /// A piece as its normalizer leaves it.
    pub(super) normalized: Normalized,
    /// The ids of a piece that was not in the caches.
    pub(super) made: Vec<u32>,
    pub(super) ends: Box<[u32; BATCH]>,
    pub(super) waiting: Box<[Waiting; BATCH]>,
}

impl Memory {
    /// Memory of which the caches take at most `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        let long = bytes / LONG_SHARE;
        Self {
            short: PieceCache::new(bytes - long),
            long: LongCache::new(long),
            buckets: Buckets::default(),
            word: Vec::new(),
            start: Vec::new(),
            normalized: Normalized::default(),
            made: Vec::new(),
            ends: Box::new([0; BATCH]),
            waiting: Box::new([Waiting::default(); BATCH]),
        }
    }

    /// Keeps the ids of a whole piece in the cache that it belongs to.
    pub(super) fn remember(&mut self, piece: &[u8], ids: &[u32]) {
        if piece.len() <= LONGEST {
            let key = Key::new(piece, 0, piece.len());
            self.short.insert(self.short.place(key), key, ids);
        }
        if piece.len() > LONGEST || ids.len() > MOST {
            self.long.insert(piece, false, ids);
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}
