//! BPE over symbols: the part that byte-level and `SentencePiece` models share.

use crate::compiled::thread_caches::{CacheMiss, NOWHERE, ThreadMemory};
use crate::hardware::{AHEAD, prefetch};
use crate::models::merge::{InterleavedWords, Merge, Merges, Symbol};
use crate::pieces::{PieceKey, Vocabulary, WholeToken, WholeTokens};

/// The most bytes of a piece that may become an interleaved word: a character has four bytes at most.
const MOST_BYTES: usize = 4 * InterleavedWords::LONGEST;

/// Vocabulary and merges, shared by all threads.
pub(crate) struct Bpe {
    answers: WholeTokens,
    pub(crate) merges: Merges,
    /// The id of each symbol.
    ids: Vec<u32>,
    /// True if a piece that is a token gets that token's id even if the merges give other ids.
    pub(crate) ignore_merges: bool,
}

/// Spells pieces in the symbols of a model.
pub(crate) trait PieceSpeller {
    /// Appends the symbols of `piece` before any merge.
    fn spell(&self, piece: &[u8], word: &mut Vec<Symbol>);

    /// The symbol that the symbols at `at` and after it merge into.
    fn initial(&self, piece: &[u8], word: &[Symbol], at: usize) -> Symbol;
}

impl Bpe {
    /// Makes a model; `ids` are the ids of the tokens of `vocabulary`, in its order.
    pub(crate) fn new(
        vocabulary: &Vocabulary,
        ids: &[u32],
        merges: &[Merge],
        ignore_merges: bool,
        spell: impl Fn(u32, &mut Vec<u32>) -> bool + Sync,
    ) -> Self {
        let answer = |merges: &Merges, index: u32| {
            WholeToken::new(ids[index as usize], merges.is_reachable(index))
        };
        Self::with_answers(vocabulary.len(), ids, merges, ignore_merges, spell, vocabulary, answer)
    }

    /// As [`Self::new`], with the texts of the pieces that are one token each, and the answer for each text.
    pub(crate) fn with_answers(
        count: usize,
        ids: &[u32],
        merges: &[Merge],
        ignore_merges: bool,
        spell: impl Fn(u32, &mut Vec<u32>) -> bool + Sync,
        texts: &Vocabulary,
        answer: impl Fn(&Merges, u32) -> WholeToken,
    ) -> Self {
        let merges = Merges::new(count, merges, spell);
        let answers = WholeTokens::new(texts, |index| answer(&merges, index));
        let ids = merges.tokens().iter().map(|index| ids[*index as usize]).collect();
        Self { answers, merges, ids, ignore_merges }
    }

    /// The id of a piece, or of a part of a piece, that is a token.
    #[inline]
    fn token(&self, answer: Option<WholeToken>, part: bool) -> Option<u32> {
        let counts = |answer: &WholeToken| answer.is_formed() || self.ignore_merges && !part;
        answer.filter(counts).map(WholeToken::id)
    }

    /// True if a whole piece is a token of the vocabulary.
    pub(crate) fn is_token(&self, piece: &[u8]) -> bool {
        self.answers.find(piece).is_some()
    }

    /// Prefetches the memory that [`Self::learn`] reads first.
    #[inline]
    pub(crate) fn prefetch(&self, key: PieceKey) {
        self.answers.prefetch(key.whole());
    }

    /// Puts the ids of absent pieces into their gaps and into the caches, unless they have too many symbols.
    pub(crate) fn learn(
        &self,
        speller: &impl PieceSpeller,
        text: &[u8],
        gaps: &mut [CacheMiss],
        memory: &mut ThreadMemory,
    ) {
        let absent = std::mem::take(&mut memory.absent);
        let mut interleaved = std::mem::take(&mut memory.interleaved);
        let mut ahead = absent.iter().skip(AHEAD);
        for (name, absent) in absent.iter().enumerate() {
            let (piece, key) = (&text[absent.range()], absent.waiting.key);
            if let Some(next) = ahead.next() {
                // The prefetch of later pieces may have evicted the lines of this one.
                self.prefetch(next.waiting.key);
            }
            let is_short = absent.waiting.place != NOWHERE;
            let answer =
                if is_short { self.answers.get(key.whole()) } else { self.answers.find(piece) };
            if let Some(id) = self.token(answer, key.is_part()) {
                gaps[absent.gap].fill(&[id], &mut memory.overflow);
                memory.remember(piece, &absent.waiting, &[id]);
                continue;
            }
            if piece.len() > MOST_BYTES {
                continue;
            }
            memory.word.clear();
            speller.spell(piece, &mut memory.word);
            let word = &memory.word;
            if word.is_empty() {
                gaps[absent.gap].fill(&[], &mut memory.overflow);
                memory.remember(piece, &absent.waiting, &[]);
            } else if word.len() <= InterleavedWords::LONGEST {
                interleaved.push(name, word, |at| speller.initial(piece, word, at));
            }
        }
        self.merges.merge_interleaved(&mut interleaved);
        interleaved.each(|_, symbols| {
            for symbol in symbols {
                prefetch(self.ids.as_ptr().wrapping_add(symbol as usize));
            }
        });
        let mut ids = std::mem::take(&mut memory.ids);
        interleaved.each(|name, symbols| {
            let absent = &absent[name];
            ids.clear();
            ids.extend(symbols.map(|symbol| self.ids[symbol as usize]));
            gaps[absent.gap].fill(&ids, &mut memory.overflow);
            memory.remember(&text[absent.range()], &absent.waiting, &ids);
        });
        interleaved.clear();
        memory.ids = ids;
        memory.interleaved = interleaved;
        memory.absent = absent;
    }

    /// Appends the ids of a piece, or of a part of a piece.
    pub(crate) fn encode(
        &self,
        speller: &impl PieceSpeller,
        piece: &[u8],
        part: bool,
        memory: &mut ThreadMemory,
        ids: &mut Vec<u32>,
    ) {
        match self.token(self.answers.find(piece), part) {
            Some(id) => ids.push(id),
            None => self.merge(speller, piece, memory, ids),
        }
    }

    /// Appends the ids that merging a piece gives.
    pub(crate) fn merge(
        &self,
        speller: &impl PieceSpeller,
        piece: &[u8],
        memory: &mut ThreadMemory,
        ids: &mut Vec<u32>,
    ) {
        if memory.refuses(piece) {
            return;
        }
        let ThreadMemory { word, start, windows, .. } = memory;
        word.clear();
        speller.spell(piece, word);
        start.clear();
        start.extend_from_slice(word);
        self.merges.merge(word, windows, |at| speller.initial(piece, start, at));
        ids.extend(word.iter().map(|symbol| self.ids[*symbol as usize]));
    }
}
