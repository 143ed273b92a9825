//! What byte-level and `SentencePiece` models have in common once a piece is spelled in symbols.

use super::memory::{Gap, Memory};
use crate::machine::{AHEAD, prefetch};
use crate::merge::{Merge, Merges, ShortLane, Symbol};
use crate::pieces::{Answer, Answers, Key, MOST, Vocabulary};

/// Vocabulary and merges, shared by all threads.
pub(super) struct Bpe {
    answers: Answers,
    pub(super) merges: Merges,
    /// The id of each symbol.
    ids: Vec<u32>,
    /// Whether a piece that is a token is that token, whatever the merges make of it.
    pub(super) ignore_merges: bool,
}

/// How a model spells pieces.
pub(super) trait Spell {
    /// Appends the symbols that merging `piece` starts from.
    fn spell(&self, piece: &[u8], word: &mut Vec<Symbol>);

    /// What the symbols at `at` and behind it become.
    fn initial(&self, piece: &[u8], word: &[Symbol], at: usize) -> Symbol;
}

impl Bpe {
    /// `ids` are those of the tokens of `vocabulary`, in its order.
    pub(super) fn new(
        vocabulary: &Vocabulary,
        ids: &[u32],
        merges: &[Merge],
        ignore_merges: bool,
        spell: impl Fn(u32, &mut Vec<u32>) -> bool + Sync,
    ) -> Self {
        let merges = Merges::new(vocabulary.len(), merges, spell);
        let answers = Answers::new(vocabulary, |index| {
            Answer::new(ids[index as usize], merges.is_reachable(index))
        });
        let ids = merges.tokens().iter().map(|index| ids[*index as usize]).collect();
        Self { answers, merges, ids, ignore_merges }
    }

    /// The id of a piece, or of a part of one, that is a token.
    #[inline]
    fn token(&self, answer: Option<Answer>, part: bool) -> Option<u32> {
        let counts = |answer: &Answer| answer.is_formed() || self.ignore_merges && !part;
        answer.filter(counts).map(Answer::id)
    }

    /// Has what [`Self::learn`] will look at first brought near.
    #[inline]
    pub(super) fn prefetch(&self, key: Key) {
        self.answers.prefetch(key.whole());
    }

    /// Puts the ids of all absent pieces into their gaps, and into the cache.
    pub(super) fn learn(
        &self,
        speller: &impl Spell,
        text: &[u8],
        gaps: &mut [Gap],
        memory: &mut Memory,
    ) {
        let mut lanes = std::mem::take(&mut memory.lanes);
        let absent = std::mem::take(&mut memory.absent);
        let mut ahead = absent.iter().skip(AHEAD);
        for (name, absent) in absent.iter().enumerate() {
            let key = absent.key;
            if let Some(next) = ahead.next() {
                // What was brought near for all of them may have made room for the rest of it since.
                self.prefetch(next.key);
            }
            if let Some(id) = self.token(self.answers.get(key.whole()), key.is_part()) {
                gaps[absent.gap].fill(&[id]);
                if memory.short.get(key).is_none() {
                    memory.short.insert(key, &[id]);
                }
                continue;
            }
            let piece = &text[absent.start as usize..absent.end as usize];
            memory.word.clear();
            speller.spell(piece, &mut memory.word);
            let word = &memory.word;
            if word.len() <= ShortLane::LONGEST {
                lanes.push(ShortLane::new(name, word, |at| speller.initial(piece, word, at)));
            }
        }
        self.merges.merge_all(&mut lanes);
        for symbol in lanes.iter().flat_map(ShortLane::symbols) {
            prefetch(self.ids.as_ptr().wrapping_add(symbol as usize));
        }
        for lane in &lanes {
            let absent = &absent[lane.name()];
            memory.word.clear();
            memory.word.extend(lane.symbols().map(|symbol| self.ids[symbol as usize]));
            gaps[absent.gap].fill(&memory.word);
            if memory.short.get(absent.key).is_some() {
                continue;
            }
            memory.short.insert(absent.key, &memory.word);
            if memory.word.len() > MOST {
                let piece = &text[absent.start as usize..absent.end as usize];
                memory.long.insert(piece, absent.key.is_part(), &memory.word);
            }
        }
        lanes.clear();
        memory.lanes = lanes;
        memory.absent = absent;
    }

    /// Appends the ids of a piece, or of a part of one.
    pub(super) fn encode(
        &self,
        speller: &impl Spell,
        piece: &[u8],
        part: bool,
        memory: &mut Memory,
        ids: &mut Vec<u32>,
    ) {
        match self.token(self.answers.find(piece), part) {
            Some(id) => ids.push(id),
            None => self.merge(speller, piece, memory, ids),
        }
    }

    /// Appends the ids that the merges make of a piece.
    pub(super) fn merge(
        &self,
        speller: &impl Spell,
        piece: &[u8],
        memory: &mut Memory,
        ids: &mut Vec<u32>,
    ) {
        let Memory { word, start, windows, .. } = memory;
        word.clear();
        speller.spell(piece, word);
        start.clear();
        start.extend_from_slice(word);
        self.merges.merge(word, windows, |at| speller.initial(piece, start, at));
        ids.extend(word.iter().map(|symbol| self.ids[*symbol as usize]));
    }
}
