//! Byte-level BPE: pieces of text to ids.

use super::batch::{Origin, Pieces};
use super::bpe::{Bpe, Spell};
use super::cuts::Cuts;
use super::memory::{Gap, Memory};
use super::spans::Watch;
use crate::merge::{Merge, NONE, Symbol};
use crate::pieces::{Key, LONGEST, Vocabulary};
use crate::split::{Cursor, Splitter};

/// A byte-level BPE model, shared by all threads.
pub(crate) struct ByteLevel {
    splitter: Splitter,
    bpe: Bpe,
    cuts: Cuts,
    /// Long tokens that only a whole piece can be: it must not be cut.
    unformed: Vocabulary,
    /// The symbol of each byte.
    bytes: Box<[Symbol; 256]>,
    /// What each pair of bytes becomes: the first look-ups of a word go here.
    pairs: Box<[Symbol]>,
    /// How many bytes each id stands for.
    lengths: Vec<u32>,
}

impl ByteLevel {
    /// `tokens` are the vocabulary in bytes with the ids; `None` if a byte that text can hold has no token.
    pub(crate) fn new(
        splitter: Splitter,
        vocabulary: &Vocabulary,
        ids: &[u32],
        merges: &[Merge],
        ignore_merges: bool,
    ) -> Option<Self> {
        let single = |byte: u8| vocabulary.get(&[byte]);
        let possible = (0..=0xF4_u8).filter(|byte| !matches!(byte, 0xC0 | 0xC1));
        if possible.into_iter().any(|byte| single(byte).is_none()) {
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
        let cuts = Cuts::new(formed.map(|index| vocabulary.token(index)));
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
        Some(Self { splitter, bpe, cuts, unformed, bytes, pairs, lengths })
    }
}

impl Spell for ByteLevel {
    #[inline]
    fn spell(&self, piece: &[u8], word: &mut Vec<Symbol>) {
        word.extend(piece.iter().map(|byte| self.bytes[usize::from(*byte)]));
    }

    #[inline]
    fn initial(&self, piece: &[u8], _: &[Symbol], at: usize) -> Symbol {
        let (left, right) = (piece[at], piece[at + 1]);
        self.pairs[usize::from(left) << 8 | usize::from(right)]
    }
}

impl Pieces for ByteLevel {
    #[inline]
    fn fill(&self, text: &[u8], cursor: &mut Cursor, ends: &mut [u32]) -> usize {
        self.splitter.fill(text, cursor, ends)
    }

    fn cut(&self, piece: &[u8], whole: bool) -> usize {
        if whole && self.unformed.get(piece).is_some() {
            piece.len()
        } else {
            self.cuts.next::<false>(piece, 0)
        }
    }

    fn tells_parts(&self) -> bool {
        self.bpe.ignore_merges
    }

    #[inline]
    fn expect(&self, key: Key) {
        self.bpe.prefetch(key);
    }

    fn learn(&self, text: &[u8], gaps: &mut [Gap], memory: &mut Memory) {
        self.bpe.learn(self, text, gaps, memory);
    }

    fn miss(&self, piece: &[u8], part: bool, memory: &mut Memory, ids: &mut Vec<u32>) {
        self.bpe.encode(self, piece, part, memory, ids);
    }

    #[cold]
    fn watch(
        &self,
        _: &[u8],
        begin: usize,
        position: usize,
        ids: &[u32],
        origin: Origin<'_>,
        watch: &mut Watch,
    ) {
        let mut at = begin;
        for (position, id) in (position..).zip(ids) {
            let end = at + self.lengths[*id as usize] as usize;
            watch.token(position, origin.of(at, end));
            at = end;
        }
    }
}
