//! Byte-level BPE: pieces of text to ids.

use super::batch::{Origin, Pieces};
use super::cuts::Cuts;
use super::memory::Memory;
use super::spans::Watch;
use crate::merge::{Merge, Merges, NONE, Symbol};
use crate::pieces::{Key, LONGEST, MOST, Vocabulary};
use crate::split::{Cursor, Splitter};

/// A byte-level BPE model, shared by all threads.
pub(crate) struct ByteLevel {
    splitter: Splitter,
    vocabulary: Vocabulary,
    merges: Merges,
    cuts: Cuts,
    /// The symbol of each byte.
    bytes: Box<[Symbol; 256]>,
    /// What each pair of bytes becomes: the first look-ups of a word go here.
    pairs: Box<[Symbol]>,
    /// The id of each symbol.
    ids: Vec<u32>,
    /// How many bytes each id stands for.
    lengths: Vec<u32>,
    /// Whether a piece that is a token is that token, whatever the merges make of it.
    ignore_merges: bool,
}

impl ByteLevel {
    /// `tokens` are the vocabulary in bytes with the ids; `None` if a byte that text can hold has no token.
    pub(crate) fn new(
        splitter: Splitter,
        vocabulary: Vocabulary,
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
        let merges = Merges::new(vocabulary.len(), merges, spell);
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
        let ids = merges.tokens().iter().map(|index| ids[*index as usize]).collect();
        Some(Self { splitter, vocabulary, merges, cuts, bytes, pairs, ids, lengths, ignore_merges })
    }

    /// Appends the ids of a part of a piece: the merges alone decide.
    fn part(&self, part: &[u8], memory: &mut Memory, ids: &mut Vec<u32>) {
        let start = ids.len();
        let short = (part.len() <= LONGEST).then(|| {
            let key = Key::new(part, 0, part.len());
            let key = if self.ignore_merges { key.part() } else { key };
            (memory.short.place(key), key)
        });
        let found = short.and_then(|(place, key)| memory.short.get(place, key));
        if let Some(found) = found.filter(|found| found.count <= MOST) {
            ids.extend_from_slice(&found.all()[..found.count]);
            return;
        }
        let known = found.is_some() || short.is_none();
        if let Some(found) = known.then(|| memory.long.get(part, true)).flatten() {
            ids.extend_from_slice(found);
            return;
        }
        match self.vocabulary.get(part) {
            Some(token) if self.merges.is_reachable(token) => ids.push(self.id_of(token)),
            _ => self.merge(part, memory, ids),
        }
        let made = &ids[start..];
        if let Some((place, key)) = short {
            memory.short.insert(place, key, made);
        }
        if short.is_none() || made.len() > MOST {
            memory.long.insert(part, true, made);
        }
    }

    fn id_of(&self, token: u32) -> u32 {
        self.ids[self.merges.symbol(token) as usize]
    }

    /// Appends the ids that the merges make of `bytes`.
    fn merge(&self, bytes: &[u8], memory: &mut Memory, ids: &mut Vec<u32>) {
        memory.word.clear();
        memory.word.extend(bytes.iter().map(|byte| self.bytes[usize::from(*byte)]));
        let initial = |at: usize| {
            let (left, right) = (bytes[at], bytes[at + 1]);
            self.pairs[usize::from(left) << 8 | usize::from(right)]
        };
        self.merges.merge(&mut memory.word, &mut memory.buckets, initial);
        ids.extend(memory.word.iter().map(|symbol| self.ids[*symbol as usize]));
    }
}

impl Pieces for ByteLevel {
    #[inline]
    fn fill(&self, text: &[u8], cursor: &mut Cursor, ends: &mut [u32]) -> usize {
        self.splitter.fill(text, cursor, ends)
    }

    fn miss(&self, piece: &[u8], memory: &mut Memory, ids: &mut Vec<u32>) {
        match self.vocabulary.get(piece) {
            Some(token) if self.ignore_merges || self.merges.is_reachable(token) => {
                ids.push(self.id_of(token));
            }
            _ => {
                let mut from = 0;
                loop {
                    let to = if piece.len() <= LONGEST {
                        piece.len()
                    } else {
                        self.cuts.next::<false>(piece, from)
                    };
                    if from == 0 && to == piece.len() {
                        self.merge(piece, memory, ids);
                    } else {
                        self.part(&piece[from..to], memory, ids);
                    }
                    from = to;
                    if from == piece.len() {
                        break;
                    }
                }
            }
        }
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
