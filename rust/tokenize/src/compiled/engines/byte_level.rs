//! Byte-level BPE: encodes pieces of text to ids.

use std::iter::repeat_n;
use std::ops::Range;

use super::bpe::{Bpe, PieceSpeller};
use crate::compiled::cutting::cut_boundaries::CutBoundaries;
use crate::compiled::piece_encoder::PieceEncoder;
use crate::compiled::spans::OffsetTracker;
use crate::compiled::spans::SourceRanges;
use crate::compiled::thread_caches::{CacheMiss, ThreadMemory};
use crate::models::merge::{Merge, NONE, Symbol};
use crate::pieces::{LONGEST, PieceKey, Vocabulary};
use crate::split::{SplitCursor, Splitter};

/// A byte-level BPE model, shared by all threads.
pub(crate) struct ByteLevel {
    splitter: Splitter,
    bpe: Bpe,
    cuts: CutBoundaries,
    /// Long tokens that the merges do not form: a piece that is such a token must not be cut.
    unformed: Vocabulary,
    /// The symbol of each byte.
    bytes: Box<[Symbol; 256]>,
    /// The symbol of each pair of bytes, which is looked up first when a word is merged.
    pairs: Box<[Symbol]>,
    /// The number of bytes that each id stands for.
    lengths: Vec<u32>,
    /// The token for bytes that have no token; `None` if every byte has one.
    unknown: Option<Unknown>,
}

/// The unknown token of a byte-level model, for bytes that text can contain and the vocabulary lacks.
#[derive(Clone, Copy)]
pub(crate) struct Unknown {
    /// The id of `unk_token`; if it is `None`, such bytes give no id.
    pub(crate) token: Option<u32>,
    /// True if adjacent unknown bytes become one token.
    pub(crate) fuse: bool,
}

impl ByteLevel {
    /// Makes a model. `ids` are the ids of the tokens of `vocabulary`, in its order; `unknown` is the token
    /// for bytes without one. `None` if the unknown token takes part in merges.
    pub(crate) fn new(
        splitter: Splitter,
        vocabulary: &Vocabulary,
        ids: &[u32],
        merges: &[Merge],
        ignore_merges: bool,
        unknown: Unknown,
    ) -> Option<Self> {
        let single = |byte: u8| vocabulary.get(&[byte]);
        let possible = (0..=0xF4_u8).filter(|byte| !matches!(byte, 0xC0 | 0xC1));
        let absent: Vec<u8> = possible.filter(|byte| single(*byte).is_none()).collect();
        let unknown = (!absent.is_empty()).then_some(unknown);
        if let Some(token) = unknown.and_then(|unknown| unknown.token)
            && merges.iter().any(|merge| merge.left == token || merge.right == token)
        {
            return None;
        }
        let indices: Vec<Option<u32>> = (0..=255).map(single).collect();
        let spell = |token: u32, out: &mut Vec<u32>| {
            vocabulary.token(token).iter().all(|byte| {
                let index = indices[usize::from(*byte)];
                out.extend(index);
                index.is_some()
            })
        };
        let bpe = Bpe::new(vocabulary, ids, merges, ignore_merges, spell);
        let merges = &bpe.merges;
        let mut bytes = Box::new([NONE; 256]);
        for (symbol, index) in bytes.iter_mut().zip(&indices) {
            *symbol = index.map_or(NONE, |index| merges.symbol(index));
        }
        let mut pairs = vec![NONE; 1 << 16].into_boxed_slice();
        for (row, left) in pairs.chunks_exact_mut(256).zip(bytes.iter()) {
            for (pair, right) in row.iter_mut().zip(bytes.iter()) {
                if *left != NONE && *right != NONE {
                    *pair = merges.pair(*left, *right);
                }
            }
        }
        let largest = ids.iter().max().map_or(0, |id| *id as usize);
        let mut lengths = vec![0; largest + 1];
        for (index, id) in (0..).zip(ids) {
            lengths[*id as usize] = u32::try_from(vocabulary.token(index).len()).ok()?;
        }
        let count = u32::try_from(vocabulary.len()).ok()?;
        let formed = (0..count).filter(|index| merges.is_reachable(*index));
        let mut cuts = CutBoundaries::new(formed.map(|index| vocabulary.token(index)));
        for byte in absent {
            cuts.forbid(byte);
        }
        let unknown = unknown.map(|unknown| Unknown {
            token: unknown.token.map(|token| merges.symbol(token)),
            ..unknown
        });
        let mut unformed = Vocabulary::with_capacity(0);
        if ignore_merges {
            let others = (0..count).filter(|index| !merges.is_reachable(*index));
            let long: Vec<_> = others
                .map(|index| vocabulary.token(index))
                .filter(|token| token.len() > LONGEST)
                .collect();
            unformed = Vocabulary::with_capacity(long.len());
            for token in long {
                unformed.push(token)?;
            }
        }
        Some(Self { splitter, bpe, cuts, unformed, bytes, pairs, lengths, unknown })
    }

    /// Appends the symbols of a piece that may contain bytes without a token.
    #[cold]
    fn spell_known(&self, unknown: Unknown, piece: &[u8], word: &mut Vec<Symbol>) {
        let mut after_unknown = false;
        for byte in piece {
            let symbol = self.bytes[usize::from(*byte)];
            if symbol != NONE {
                word.push(symbol);
            } else if !(after_unknown && unknown.fuse) {
                word.extend(unknown.token);
            }
            after_unknown = symbol == NONE;
        }
    }

    /// Records the source ranges of the tokens of a piece that contains bytes without a token.
    ///
    /// The reference counts the bytes of the letters that stand for bytes: one for a byte that is printed as
    /// itself, two for any other. Bytes that give no id are not counted.
    #[cold]
    fn record_offsets_of_known(
        &self,
        unknown: Unknown,
        text: &[u8],
        begin: usize,
        tokens: TrackedPiece<'_>,
    ) {
        let TrackedPiece { position, ids, origin, offset_tracker } = tokens;
        let letters = |byte: u8| if byte.is_ascii_graphic() { 1 } else { 2 };
        let piece = &text[begin..];
        // The source of each letter is a whole character.
        let starts = (begin..).zip(piece).filter(|(_, byte)| **byte & 0xC0 != 0x80);
        let ends = starts.clone().skip(1).map(|(at, _)| at).chain([text.len()]);
        let places: Vec<Range<usize>> = starts
            .zip(ends)
            .flat_map(|((start, _), end)| {
                let count: usize = text[start..end].iter().map(|byte| letters(*byte)).sum();
                repeat_n(start..end, count)
            })
            .collect();
        // The number of bytes of each token.
        let mut lengths = Vec::new();
        let (mut left, mut unknowns) = (0_u32, 0);
        let mut symbols = ids.iter();
        let mut length = 0;
        for byte in piece {
            let known = self.bytes[usize::from(*byte)] != NONE;
            if !known {
                if unknown.token.is_none() {
                    continue;
                }
                if unknowns > 0 && unknown.fuse {
                    if let Some(last) = lengths.last_mut() {
                        *last += letters(*byte);
                    }
                } else {
                    symbols.next();
                    lengths.push(letters(*byte));
                }
                unknowns += 1;
                continue;
            }
            unknowns = 0;
            if left == 0 {
                left = symbols.next().map_or(1, |id| self.lengths[*id as usize]);
                length = 0;
            }
            length += letters(*byte);
            left -= 1;
            if left == 0 {
                lengths.push(length);
            }
        }
        let mut at = 0;
        for (position, length) in (position..).zip(lengths) {
            let (first, last) = (&places[at], &places[at + length - 1]);
            offset_tracker.token(position, origin.of(first.start, last.end));
            at += length;
        }
    }
}

/// The tokens of a piece, and the tracker of their source ranges.
struct TrackedPiece<'a> {
    /// The position of the first token in the ids.
    position: usize,
    ids: &'a [u32],
    origin: SourceRanges<'a>,
    offset_tracker: &'a mut OffsetTracker,
}

impl PieceSpeller for ByteLevel {
    #[inline]
    fn spell(&self, piece: &[u8], word: &mut Vec<Symbol>) {
        match self.unknown {
            None => word.extend(piece.iter().map(|byte| self.bytes[usize::from(*byte)])),
            Some(unknown) => self.spell_known(unknown, piece, word),
        }
    }

    #[inline]
    fn initial(&self, piece: &[u8], word: &[Symbol], at: usize) -> Symbol {
        if self.unknown.is_some() {
            return self.bpe.merges.pair(word[at], word[at + 1]);
        }
        let (left, right) = (piece[at], piece[at + 1]);
        self.pairs[usize::from(left) << 8 | usize::from(right)]
    }
}

impl PieceEncoder for ByteLevel {
    #[inline]
    fn fill(&self, text: &[u8], cursor: &mut SplitCursor, ends: &mut [u32]) -> usize {
        self.splitter.fill(text, cursor, ends)
    }

    fn cut(&self, piece: &[u8], whole: bool) -> usize {
        let lacks = |byte: &u8| self.bytes[usize::from(*byte)] == NONE;
        let drops = whole && self.unknown.is_some_and(|it| it.token.is_none());
        if drops && piece.iter().any(lacks) {
            // The source ranges of its tokens depend on the number of bytes before them that give no id.
            return piece.len();
        }
        if whole && self.unformed.get(piece).is_some() {
            piece.len()
        } else {
            self.cuts.next::<false>(piece, 0)
        }
    }

    fn parts_have_other_ids(&self) -> bool {
        self.bpe.ignore_merges
    }

    #[inline]
    fn expect(&self, key: PieceKey) {
        self.bpe.prefetch(key);
    }

    fn learn(&self, text: &[u8], gaps: &mut [CacheMiss], memory: &mut ThreadMemory) {
        self.bpe.learn(self, text, gaps, memory);
    }

    fn miss(&self, piece: &[u8], part: bool, memory: &mut ThreadMemory, ids: &mut Vec<u32>) {
        self.bpe.encode(self, piece, part, memory, ids);
    }

    #[cold]
    fn record_offsets(
        &self,
        text: &[u8],
        begin: usize,
        position: usize,
        ids: &[u32],
        origin: SourceRanges<'_>,
        offset_tracker: &mut OffsetTracker,
    ) {
        if let Some(unknown) = self.unknown
            && (unknown.token.is_none() && offset_tracker.wants_sources()
                || text[begin..].iter().any(|byte| self.bytes[usize::from(*byte)] == NONE))
        {
            if unknown.token.is_none() && !offset_tracker.wants_sources() {
                // The composition of letters and marks decides if a byte without an id belongs to a token.
                return offset_tracker.lose();
            }
            let tokens = TrackedPiece { position, ids, origin, offset_tracker };
            return self.record_offsets_of_known(unknown, text, begin, tokens);
        }
        let mut at = begin;
        for (position, id) in (position..).zip(ids) {
            let end = at + self.lengths[*id as usize] as usize;
            offset_tracker.token(position, origin.of(at, end));
            at = end;
        }
    }
}
