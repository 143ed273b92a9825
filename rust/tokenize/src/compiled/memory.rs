//! What one thread writes to while it encodes.

use std::fmt;

use super::normalize::Normalized;
use crate::merge::{Lane, Symbol, Windows};
use crate::pieces::{Key, LongCache, MOST, PieceCache};

/// Pieces that are cut and looked up together: enough for a prefetch to arrive, few enough to stay in the first-level
/// cache.
pub(super) const BATCH: usize = 512;

/// The most pieces that ever wait: those of a batch, behind parts of long ones that were not enough to be looked up.
const MOST_WAITING: usize = 3 * BATCH;

/// Ids that are copied at a time.
pub(super) const STEP: usize = 8;

/// The share of a thread's cache that long pieces get.
const LONG_SHARE: usize = 4;

/// A piece, or a part of one, between the passes over a batch; it begins where the one before it ends.
#[derive(Clone, Copy, Default)]
pub(super) struct Waiting {
    /// Its key; of a piece that is too long for one, only whether it is a part.
    pub(super) key: Key,
    /// Its place in the cache, or [`NOWHERE`].
    pub(super) place: u32,
    pub(super) end: u32,
}

/// The place of pieces that are too long for the cache of short ones.
pub(super) const NOWHERE: u32 = u32::MAX;

/// A piece whose ids were not where they were looked for first.
#[derive(Clone, Copy, Default)]
pub(super) struct Gap {
    /// Which of those that wait it is.
    pub(super) index: usize,
    /// Whether its ids are known.
    pub(super) known: bool,
    /// How many they are.
    pub(super) count: usize,
    /// The ids, if they are not too many, and anything behind them.
    pub(super) ids: [u32; MOST],
}

/// A short piece that was not in the cache when it was looked for.
#[derive(Clone, Copy)]
pub(super) struct Absent {
    pub(super) key: Key,
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
    pub(super) ends: Vec<u32>,
    pub(super) waiting: Box<[Waiting]>,
    /// How many of them wait.
    pub(super) count: usize,
    /// The ids of the pieces that the cache has, one behind the other.
    pub(super) copied: Box<[u32]>,
    /// Where those of each piece begin.
    pub(super) positions: Box<[usize]>,
    /// Which pieces it has not.
    pub(super) missing: Box<[usize]>,
    /// The same pieces with what is found of them.
    pub(super) gaps: Vec<Gap>,
    /// The ids of those that have too many, one behind the other.
    pub(super) made: Vec<u32>,
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
            ends: vec![0; BATCH],
            waiting: vec![Waiting::default(); MOST_WAITING].into(),
            count: 0,
            copied: vec![0; MOST * MOST_WAITING + STEP].into(),
            positions: vec![0; MOST_WAITING].into(),
            missing: vec![0; MOST_WAITING].into(),
            gaps: Vec::new(),
            made: Vec::new(),
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
