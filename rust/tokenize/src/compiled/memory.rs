//! What one thread writes to while it encodes.

use std::fmt;

use super::normalize::Normalized;
use crate::merge::{Lane, Symbol, Windows};
use crate::pieces::{Key, LongCache, PieceCache};

/// Pieces that are cut and looked up together: enough for a prefetch to arrive, few enough to stay in the first-level
/// cache.
pub(super) const BATCH: usize = 256;

/// The share of a thread's cache that long pieces get.
const LONG_SHARE: usize = 8;

/// A piece, or a part of one, between the passes over a batch; it begins where the one before it ends.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    /// Its key; of a piece that is too long for one, only whether it is a part.
    pub(super) key: Key,
    /// Its place in the cache, or [`NOWHERE`].
    pub(super) place: u32,
    pub(super) end: u32,
}

/// The place of pieces that are too long for the cache of short ones.
pub(super) const NOWHERE: u32 = u32::MAX;

/// A short piece that was not in the cache when it was looked for.
#[derive(Clone, Copy)]
pub(super) struct Absent {
    pub(super) key: Key,
    pub(super) place: u32,
    pub(super) start: u32,
    pub(super) end: u32,
}

/// Caches and scratch of one thread.
pub(crate) struct Memory {
    pub(super) short: PieceCache,
    pub(super) long: LongCache,
    pub(super) windows: Windows,
    pub(super) word: Vec<Symbol>,
    /// The word before it was merged.
    pub(super) start: Vec<Symbol>,
    /// A piece as its normalizer leaves it.
    pub(super) normalized: Normalized,
    /// The ids of a piece that was not in the caches.
    pub(super) made: Vec<u32>,
    pub(super) ends: Box<[u32; BATCH]>,
    pub(super) waiting: Vec<Waiting>,
    /// Where the ids of each waiting piece begin, behind those of the pieces that were copied before it.
    pub(super) positions: Vec<usize>,
    /// The waiting pieces that were not copied.
    pub(super) gaps: Vec<usize>,
    /// The ids that come behind the first of them.
    pub(super) copied: Vec<u32>,
    pub(super) absent: Vec<Absent>,
    pub(super) lanes: Vec<Lane>,
}

impl Memory {
    /// Memory of which the caches take at most `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        let long = bytes / LONG_SHARE;
        Self {
            short: PieceCache::new(bytes - long),
            long: LongCache::new(long),
            windows: Windows::default(),
            word: Vec::new(),
            start: Vec::new(),
            normalized: Normalized::default(),
            made: Vec::new(),
            ends: Box::new([0; BATCH]),
            waiting: Vec::with_capacity(2 * BATCH),
            positions: Vec::new(),
            gaps: Vec::new(),
            copied: Vec::new(),
            absent: Vec::new(),
            lanes: Vec::new(),
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}
