//! What one thread writes to while it encodes.

use std::fmt;
use std::ops::Range;

use super::general::PreTokenized;
use super::normalize::Normalized;
use crate::error::Error;
use crate::merge::{Lanes, Symbol, Windows};
use crate::pieces::{Key, LongCache, MOST, PieceCache};
use crate::stop::Stop;
use crate::viterbi::Ways;

/// Pieces that are cut and looked up together: enough for a prefetch to arrive, and for some new words among them to be
/// merged together. With 256, English was 2 % slower (llama3, Intel Xeon, 2026-11-22); all that a batch looks at fits into
/// the second-level cache.
pub(super) const BATCH: usize = 512;

/// The most pieces that ever wait: those of a batch, behind parts of long ones that were not enough to be looked up.
const MOST_WAITING: usize = 3 * BATCH;

/// Ids that are copied at a time: most runs between two gaps are no longer, and 32 bytes are one store.
pub(super) const STEP: usize = 8;

const _: () = assert!(STEP >= MOST, "the ids of a gap need the room behind the last one");

/// One part in so many of a thread's cache is for long pieces: with half of that, 25 MB of mixed languages filled it.
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
    /// Where they begin among those that were made, if they are.
    pub(super) from: usize,
}

impl Gap {
    /// Takes the ids, which go behind those in `made` if they are too many.
    #[inline]
    pub(super) fn fill(&mut self, ids: &[u32], made: &mut Vec<u32>) {
        (self.count, self.known) = (ids.len(), true);
        if let Some(room) = self.ids.get_mut(..ids.len()) {
            room.copy_from_slice(ids);
        } else {
            self.from = made.len();
            made.extend_from_slice(ids);
        }
    }
}

/// A piece that was in no cache when it was looked for.
#[derive(Clone, Copy)]
pub(super) struct Absent {
    pub(super) waiting: Waiting,
    /// Which of the gaps it is.
    pub(super) gap: usize,
    pub(super) start: usize,
}

impl Absent {
    /// Where the piece stands.
    #[inline]
    pub(super) fn range(&self) -> Range<usize> {
        self.start..self.waiting.end as usize
    }
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
    /// A stretch as its pre-tokenizers leave it.
    pub(super) pre_tokenized: PreTokenized,
    /// The ways through a piece.
    pub(super) ways: Ways,
    /// Where the pieces of a batch end.
    pub(super) ends: Box<[u32]>,
    /// They, or their parts, until they are looked up.
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
    /// The ids of those that have too many.
    pub(super) made: Vec<u32>,
    /// The ids of one of them, while they are made.
    pub(super) ids: Vec<u32>,
    /// Those of them that no cache has.
    pub(super) absent: Vec<Absent>,
    /// The absent ones that are being merged.
    pub(super) lanes: Lanes,
    /// Bytes of the longest word that is merged.
    pub(crate) longest_word: usize,
    /// Why the text cannot be encoded, if it cannot.
    pub(crate) refused: Option<Error>,
    /// What ends the encoding of a text.
    stop: Stop,
}

/// Bytes of the longest word that has no place to be cut: merging one takes 14 bytes of memory for each of its own.
const LONGEST_WORD: usize = 1 << 28;

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
            pre_tokenized: PreTokenized::default(),
            ways: Ways::default(),
            ends: vec![0; BATCH].into(),
            waiting: vec![Waiting::default(); MOST_WAITING].into(),
            count: 0,
            copied: vec![0; MOST * MOST_WAITING + STEP].into(),
            positions: vec![0; MOST_WAITING].into(),
            missing: vec![0; MOST_WAITING].into(),
            gaps: Vec::new(),
            made: Vec::new(),
            ids: Vec::new(),
            absent: Vec::new(),
            lanes: Lanes::default(),
            longest_word: LONGEST_WORD,
            refused: None,
            stop: Stop::default(),
        }
    }

    /// Has encoding end once `stop` asks for it.
    pub(crate) fn stop(&mut self, stop: Stop) {
        self.windows.stop = stop.clone();
        self.stop = stop;
    }

    /// Whether a word is too long to be merged, which whoever asked for the ids is told.
    pub(super) fn refuses(&mut self, word: &[u8]) -> bool {
        let refuses = word.len() > self.longest_word;
        if refuses {
            let what = "a word without a place to cut it";
            self.refused = Some(Error::too_long(what, word.len(), self.longest_word));
        }
        refuses
    }

    /// Whether encoding is to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_asked()
    }

    /// Gives up what was needed for one long text, and would not be for others.
    pub(crate) fn shrink(&mut self) {
        self.windows = Windows::default();
        self.windows.stop = self.stop.clone();
        self.normalized = Normalized::default();
        self.pre_tokenized = PreTokenized::default();
        self.ways = Ways::default();
        for buffer in [&mut self.word, &mut self.start, &mut self.made, &mut self.ids] {
            *buffer = Vec::new();
        }
    }
}

impl Memory {
    /// Puts the ids of a piece into its gap, if a cache has them.
    #[inline]
    pub(super) fn recall(&mut self, piece: &[u8], waiting: &Waiting, gap: &mut Gap) -> bool {
        let Waiting { key, place, .. } = *waiting;
        if place != NOWHERE {
            match self.short.get(key) {
                None => return false,
                Some(found) if found.is_whole() => {
                    (gap.ids, gap.count, gap.known) = (found.all(), found.count(), true);
                    return true;
                }
                Some(_) => {}
            }
        }
        let known = self.long.get(piece, key.is_part());
        known.inspect(|ids| gap.fill(ids, &mut self.made)).is_some()
    }

    /// Remembers the ids of a piece that no cache had a while ago.
    pub(super) fn remember(&mut self, piece: &[u8], waiting: &Waiting, ids: &[u32]) {
        let Waiting { key, place, .. } = *waiting;
        if place != NOWHERE {
            if self.short.get(key).is_none() {
                self.short.insert(key, ids);
            }
            if ids.len() <= MOST {
                return;
            }
        }
        if self.long.get(piece, key.is_part()).is_none() {
            self.long.insert(piece, key.is_part(), ids);
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}
