//! [`ThreadMemory`]: the caches and buffers that one thread writes to while it encodes.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::engines::general::PreTokenized;
use super::normalizers::normalized::Normalized;
use crate::cancel_flag::CancelFlag;
use crate::error::Error;
use crate::models::merge::{InterleavedWords, Symbol, Windows};
use crate::models::viterbi::ViterbiBuffers;
use crate::pieces::{LongCache, MOST, PieceCache, PieceKey, SharedCache};

/// The number of pieces that are cut and looked up together. It is enough for a prefetch to arrive, and for
/// some new words among them to be merged together. With 256, English was 2 % slower (llama3, Intel Xeon,
/// 2026-11-22). All memory that a batch reads fits into the second-level cache.
pub(super) const BATCH: usize = 512;

/// The most pieces that are ever queued: a batch, after the parts of long pieces that were too few to be
/// looked up.
const MOST_WAITING: usize = 3 * BATCH;

/// Ids that are copied at a time: most runs between two gaps are no longer, and 32 bytes are one store.
pub(super) const STEP: usize = 8;

const _: () = assert!(STEP >= MOST, "the ids of a gap need the room behind the last one");

/// The share of the caches for long pieces, as a divisor: with half of that share, 25 MB of mixed languages filled it.
const LONG_SHARE: usize = 8;

/// A queued piece, or a part of one, between the two passes over a batch. It begins at the end of the piece
/// before it.
#[derive(Clone, Copy, Default)]
pub(super) struct QueuedPiece {
    /// The key of the piece. If the piece is too long for a key, the key holds only the bit for parts.
    pub(super) key: PieceKey,
    /// The piece's set in the cache, or [`NOWHERE`].
    pub(super) place: u32,
    pub(super) end: u32,
}

/// The place of pieces that are too long for the cache of short ones.
pub(super) const NOWHERE: u32 = u32::MAX;

/// A piece that the first look-up in the cache of short pieces did not find.
#[derive(Clone, Copy, Default)]
pub(super) struct CacheMiss {
    /// The index of the piece among the queued pieces.
    pub(super) index: usize,
    /// True if its ids are known.
    pub(super) known: bool,
    /// The number of ids.
    pub(super) count: usize,
    /// The ids, if there are at most [`MOST`]; later entries are arbitrary.
    pub(super) ids: [u32; MOST],
    /// The start of the ids in [`ThreadMemory::overflow`], if there are more than [`MOST`].
    pub(super) from: usize,
}

impl CacheMiss {
    /// Stores the ids; if there are more than [`MOST`], they go to the end of `overflow`.
    #[inline]
    pub(super) fn fill(&mut self, ids: &[u32], overflow: &mut Vec<u32>) {
        (self.count, self.known) = (ids.len(), true);
        if let Some(room) = self.ids.get_mut(..ids.len()) {
            room.copy_from_slice(ids);
        } else {
            self.from = overflow.len();
            overflow.extend_from_slice(ids);
        }
    }
}

/// A piece that no cache had when it was looked up.
#[derive(Clone, Copy)]
pub(super) struct PendingPiece {
    pub(super) waiting: QueuedPiece,
    /// The index of its gap.
    pub(super) gap: usize,
    pub(super) start: usize,
}

impl PendingPiece {
    /// The byte range of the piece.
    #[inline]
    pub(super) fn range(&self) -> Range<usize> {
        self.start..self.waiting.end as usize
    }
}

/// The caches and buffers that one thread uses.
pub(crate) struct ThreadMemory {
    pub(super) short: PieceCache,
    pub(super) long: LongCache,
    pub(super) windows: Windows,
    pub(super) word: Vec<Symbol>,
    /// The symbols of a word before it is merged.
    pub(super) start: Vec<Symbol>,
    /// The normalized text of a piece.
    pub(super) normalized: Normalized,
    /// A piece as a unigram model reads it.
    pub(super) spelled: Vec<u8>,
    /// A pre-tokenized stretch.
    pub(super) pre_tokenized: PreTokenized,
    /// The buffers of the Viterbi search over a piece.
    pub(super) ways: ViterbiBuffers,
    /// The ends of the pieces of a batch.
    pub(super) ends: Box<[u32]>,
    /// The queued pieces, and parts of pieces, which are to be looked up.
    pub(super) waiting: Box<[QueuedPiece]>,
    /// The number of queued pieces.
    pub(super) count: usize,
    /// The ids of the pieces that the cache has, one piece after the other.
    pub(super) copied: Box<[u32]>,
    /// The start of each piece's ids in `copied`.
    pub(super) positions: Box<[usize]>,
    /// The indices of the pieces that the cache does not have.
    pub(super) missing: Box<[usize]>,
    /// The missing pieces, with their ids once these are known.
    pub(super) gaps: Vec<CacheMiss>,
    /// The ids of gaps that have more than [`MOST`].
    pub(super) overflow: Vec<u32>,
    /// The ids of one gap, while they are made.
    pub(super) ids: Vec<u32>,
    /// The gaps that no cache has.
    pub(super) absent: Vec<PendingPiece>,
    /// The absent pieces that are being merged.
    pub(super) interleaved: InterleavedWords,
    /// Bytes of the longest word that may be merged.
    pub(crate) longest_word: usize,
    /// The error that refuses the text, if there is one.
    pub(crate) refused: Option<Error>,
    /// The flag that ends the encoding of a text.
    stop: CancelFlag,
}

/// Bytes of the longest word without a safe cut: merging one takes 14 bytes of memory for each of its bytes.
const LONGEST_WORD: usize = 1 << 28;

/// The most bytes of the caches for long pieces of all threads together.
const ALL_LONG: usize = 128 << 20;

/// The caches of all threads of a tokenizer: their common part, and how much each may use besides.
#[derive(Clone)]
pub(crate) struct Caches {
    short: Arc<SharedCache>,
    /// Bytes of a thread's cache for long pieces.
    long: usize,
}

impl Caches {
    /// Caches of at most `bytes` for one thread.
    pub(crate) fn new(bytes: usize) -> Self {
        let long = bytes / LONG_SHARE;
        Self { short: Arc::new(SharedCache::new(bytes - long)), long }
    }
}

impl fmt::Debug for Caches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caches").finish_non_exhaustive()
    }
}

impl ThreadMemory {
    /// The part of one thread in `caches`, and its buffers.
    pub(crate) fn new(caches: &Caches) -> Self {
        Self {
            short: PieceCache::new(&caches.short),
            long: LongCache::new(caches.long),
            windows: Windows::default(),
            word: Vec::new(),
            start: Vec::new(),
            normalized: Normalized::default(),
            spelled: Vec::new(),
            pre_tokenized: PreTokenized::default(),
            ways: ViterbiBuffers::default(),
            ends: vec![0; BATCH].into(),
            waiting: vec![QueuedPiece::default(); MOST_WAITING].into(),
            count: 0,
            copied: vec![0; MOST * MOST_WAITING + STEP].into(),
            positions: vec![0; MOST_WAITING].into(),
            missing: vec![0; MOST_WAITING].into(),
            gaps: Vec::new(),
            overflow: Vec::new(),
            ids: Vec::new(),
            absent: Vec::new(),
            interleaved: InterleavedWords::default(),
            longest_word: LONGEST_WORD,
            refused: None,
            stop: CancelFlag::default(),
        }
    }

    /// Makes encoding end once `stop` is set.
    pub(crate) fn stop(&mut self, stop: CancelFlag) {
        self.windows.stop = stop.clone();
        self.stop = stop;
    }

    /// True if a word is too long to be merged; if so, notes the error for the caller.
    pub(super) fn refuses(&mut self, word: &[u8]) -> bool {
        let refuses = word.len() > self.longest_word;
        if refuses {
            let what = "a word without a place to cut it";
            self.refused = Some(Error::too_long(what, word.len(), self.longest_word));
        }
        refuses
    }

    /// The reason for which the last text was not encoded.
    pub(crate) fn refusal(&mut self) -> Option<Error> {
        let refused = self.refused.take();
        if self.is_stopped() { Some(Error::Stopped) } else { refused }
    }

    /// True if encoding is to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_set()
    }

    /// Frees the memory that one long text needed and that other texts do not need.
    pub(crate) fn shrink(&mut self) {
        self.windows = Windows::default();
        self.windows.stop = self.stop.clone();
        self.normalized = Normalized::default();
        self.spelled = Vec::new();
        self.pre_tokenized = PreTokenized::default();
        self.ways = ViterbiBuffers::default();
        for buffer in [&mut self.word, &mut self.start, &mut self.overflow, &mut self.ids] {
            *buffer = Vec::new();
        }
    }
}

impl ThreadMemory {
    /// Makes room in the caches before a batch.
    #[inline]
    pub(super) fn make_room(&mut self) {
        self.short.renew();
        self.long.keep_within(ALL_LONG / self.short.threads().max(1));
    }

    /// Puts the ids of a piece into its gap, if a cache has them, and says whether one had.
    #[inline]
    pub(super) fn recall(
        &mut self,
        piece: &[u8],
        waiting: &QueuedPiece,
        gap: &mut CacheMiss,
    ) -> bool {
        let QueuedPiece { key, place, .. } = *waiting;
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
        known.inspect(|ids| gap.fill(ids, &mut self.overflow)).is_some()
    }

    /// Stores the ids of a piece in the caches, unless they were stored since the look-up.
    pub(super) fn remember(&mut self, piece: &[u8], waiting: &QueuedPiece, ids: &[u32]) {
        let QueuedPiece { key, place, .. } = *waiting;
        if place != NOWHERE {
            self.short.insert(key, ids);
            if ids.len() <= MOST {
                return;
            }
        }
        if self.long.get(piece, key.is_part()).is_none() {
            self.long.insert(piece, key.is_part(), ids);
        }
    }
}

impl fmt::Debug for ThreadMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caches_of_sixty_four_threads_take_at_most_300_mb() {
        let caches = Caches::new(64 << 20);
        let mut threads: Vec<_> = (0..64).map(|_| ThreadMemory::new(&caches)).collect();
        let waiting = QueuedPiece { place: NOWHERE, ..QueuedPiece::default() };
        for (thread, memory) in threads.iter_mut().enumerate() {
            for number in 0..40_000 {
                let piece = format!("{number} of {thread}, which is too long for a key");
                memory.remember(piece.as_bytes(), &waiting, &[1; 6]);
                memory.make_room();
            }
        }
        let long: usize = threads.iter().map(|memory| memory.long.bytes()).sum();
        assert!(long + caches.short.most_bytes() <= 300 << 20, "{long}");
    }
}
