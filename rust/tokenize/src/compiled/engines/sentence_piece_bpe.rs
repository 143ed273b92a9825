//! `SentencePiece`-style BPE: characters with byte fallback or an unknown token, and `▁` for the space.
//!
//! For such a model, a whole text is one word. It is cut between two characters that no token has as
//! neighbours, and the text between two cuts is a piece. The normalized text is never written: the vocabulary
//! is kept with spaces in place of `▁`, and a `▁` in the text counts as a space.

use std::ops::Range;

use super::alphabet::SymbolAlphabet;
use super::bpe::{Bpe, PieceSpeller};
use super::space_prefix::{META, META_CHARACTER, SpacePrefix};
use crate::compiled::batch;
use crate::compiled::batch::EncodingOutput;
use crate::compiled::cutting::cut_boundaries::CutBoundaries;
use crate::compiled::cutting::edges::CutRules;
use crate::compiled::cutting::windows::CutPlaces;
use crate::compiled::piece_encoder::PieceEncoder;
use crate::compiled::spans::OffsetTracker;
use crate::compiled::spans::SourceRanges;
use crate::compiled::thread_caches::{CacheMiss, ThreadMemory};
use crate::models::merge::{Merge, NONE, Symbol};
use crate::pieces::{PieceKey, Vocabulary};
use crate::split::{SplitCursor, decode};

/// A SentencePiece-style BPE model, shared by all threads.
pub(crate) struct SentencePieceBpe {
    bpe: Bpe,
    edges: CutRules,
    prefix: SpacePrefix,
    /// The symbol of each character. That of `▁` is that of a space.
    alphabet: SymbolAlphabet,
    /// The symbol that each two ASCII characters merge into, or [`NONE`].
    pairs: Box<[Symbol]>,
    /// The symbols for characters that have no token.
    missing: MissingCharacters<Symbol>,
    /// The id of the unknown token, if there is one.
    unknown: Option<u32>,
    /// The number of bytes of normalized text that each id stands for.
    lengths: Vec<u32>,
}

/// The tokens for characters that have no token.
#[derive(Clone, Debug)]
pub(crate) enum MissingCharacters<T> {
    /// The token of each byte.
    Bytes(Box<[T; 256]>),
    /// An unknown token.
    Unknown {
        token: T,
        /// True if adjacent unknown characters become one token.
        fuse: bool,
    },
}

impl<T: Copy> MissingCharacters<T> {
    /// The tokens in another form.
    fn map<U>(&self, form: impl Fn(T) -> U) -> MissingCharacters<U> {
        match self {
            Self::Bytes(bytes) => MissingCharacters::Bytes(Box::new(bytes.map(form))),
            Self::Unknown { token, fuse } => {
                MissingCharacters::Unknown { token: form(*token), fuse: *fuse }
            }
        }
    }

    fn tokens(&self) -> &[T] {
        match self {
            Self::Bytes(bytes) => bytes.as_slice(),
            Self::Unknown { token, .. } => std::slice::from_ref(token),
        }
    }
}

/// The parts of a [`SentencePieceBpe`].
pub(crate) struct SentencePieceBpeParts {
    /// The tokens, with spaces in place of `▁`.
    pub(crate) vocabulary: Vocabulary,
    /// The id of each token.
    pub(crate) ids: Vec<u32>,
    /// The merges, in the order of their ranks.
    pub(crate) merges: Vec<Merge>,
    /// The tokens for characters that have no token.
    pub(crate) missing: MissingCharacters<u32>,
    /// The rule for putting a space in front of a stretch.
    pub(crate) prefix: SpacePrefix,
    /// True if the text is cut before every space.
    pub(crate) split: bool,
}

impl SentencePieceBpe {
    /// Makes a model. `None` if a token for characters without one takes part in a merge, or if there is no
    /// token for the space.
    pub(crate) fn new(parts: SentencePieceBpeParts) -> Option<Self> {
        let SentencePieceBpeParts { vocabulary, ids, merges, missing, prefix, split } = parts;
        let space = vocabulary.get(b" ")?;
        let mut unmerged = vec![false; vocabulary.len()];
        for token in missing.tokens() {
            unmerged[*token as usize] = true;
        }
        let is_unmerged = |token: u32| unmerged[token as usize];
        if merges
            .iter()
            .any(|merge| [merge.left, merge.right, merge.whole].into_iter().any(is_unmerged))
        {
            return None;
        }
        let spell = |token: u32, out: &mut Vec<u32>| {
            let text = vocabulary.token(token);
            let mut at = 0;
            while at < text.len() {
                let length = decode(text, at).1;
                let Some(character) = vocabulary.get(&text[at..at + length]) else { return false };
                out.push(character);
                at += length;
            }
            true
        };
        let bpe = Bpe::new(&vocabulary, &ids, &merges, false, spell);
        let merges = &bpe.merges;
        let character = |token: &[u8]| {
            let (code_point, length) = decode(token, 0);
            (length == token.len()).then_some(code_point)
        };
        let characters = vocabulary
            .tokens()
            .filter(|(_, token)| !token.is_empty())
            .filter_map(|(index, token)| Some((character(token)?, merges.symbol(index))));
        let space = (u32::from(META_CHARACTER), merges.symbol(space));
        let alphabet = SymbolAlphabet::new(characters.chain([space]));
        let ascii = || (0..128).map(|byte| alphabet.get(byte));
        let pairs = ascii().flat_map(|left| ascii().map(move |right| (left, right)));
        let pair = |(left, right): (Symbol, Symbol)| {
            if left == NONE || right == NONE { NONE } else { merges.pair(left, right) }
        };
        let pairs = pairs.map(pair).collect();
        let largest = ids.iter().max().map_or(0, |id| *id as usize);
        let mut lengths = vec![0; largest + 1];
        for (index, id) in (0..).zip(&ids) {
            let token = vocabulary.token(index);
            let length: usize =
                token.iter().map(|byte| if *byte == b' ' { META.len() } else { 1 }).sum();
            lengths[*id as usize] = u32::try_from(length).ok()?;
        }
        if let MissingCharacters::Bytes(bytes) = &missing {
            for token in bytes.iter() {
                lengths[ids[*token as usize] as usize] = 1;
            }
        }
        let count = u32::try_from(vocabulary.len()).ok()?;
        let formed = (0..count).filter(|index| merges.is_reachable(*index));
        let mut cuts =
            CutBoundaries::new(formed.flat_map(|index| parts_of(vocabulary.token(index), split)));
        if matches!(missing, MissingCharacters::Unknown { fuse: true, .. }) {
            let tokens = (0..count).map(|index| vocabulary.token(index));
            cuts.join_unknown(tokens.filter(|token| !token.is_empty()).filter_map(character));
        }
        if split {
            cuts.cut_before_spaces();
        }
        let edges = CutRules::new(cuts);
        let unknown = match missing {
            MissingCharacters::Unknown { token, .. } => Some(ids[token as usize]),
            MissingCharacters::Bytes(_) => None,
        };
        let missing = missing.map(|token| merges.symbol(token));
        Some(Self { bpe, edges, prefix, alphabet, pairs, missing, unknown, lengths })
    }

    /// Appends the ids of `text[start..]`, a stretch between two added tokens. A stretch that is `normalized`
    /// already gets no space in front.
    pub(crate) fn encode(
        &self,
        text: &[u8],
        start: usize,
        normalized: bool,
        memory: &mut ThreadMemory,
        out: &mut EncodingOutput<'_>,
    ) {
        let spaced = text[start..].starts_with(b" ") || text[start..].starts_with(META.as_bytes());
        let prefixed = match self.prefix {
            _ if normalized => false,
            SpacePrefix::Never => false,
            SpacePrefix::Always => true,
            SpacePrefix::Unspaced => !spaced,
            SpacePrefix::First => start == 0 && !spaced,
        };
        let mut from = start;
        if prefixed {
            from = self.edges.next(text, start);
            let position = out.ids.len();
            self.prefixed(&text[start..from], memory, out.ids);
            if from > out.offset_tracker.next() {
                let ids = &out.ids[position..];
                self.sources(
                    text,
                    start..start + META.len(),
                    position,
                    ids,
                    out.origin,
                    out.offset_tracker,
                );
            }
        }
        batch::encode(self, text, from, memory, out);
    }

    /// Appends the ids of a piece with a space in front.
    fn prefixed(&self, piece: &[u8], memory: &mut ThreadMemory, ids: &mut Vec<u32>) {
        let start = ids.len();
        // In other engines this bit marks parts of pieces; here it marks pieces with a space in front.
        let short = PieceKey::of(piece).map(PieceKey::part);
        let found = short.and_then(|key| memory.short.get(key));
        if let Some(found) = found.filter(|found| found.is_whole()) {
            ids.extend(found.ids());
            return;
        }
        let spaced = [b" ", piece].concat();
        self.bpe.merge(self, &spaced, memory, ids);
        if let Some(key) = short.filter(|_| found.is_none()) {
            memory.short.insert(key, &ids[start..]);
        }
    }

    /// Records the source ranges of tokens from `prefix.start` on. The length of `prefix` is the
    /// number of bytes that the engine put in front of the text.
    fn sources(
        &self,
        text: &[u8],
        prefix: Range<usize>,
        position: usize,
        ids: &[u32],
        origin: SourceRanges<'_>,
        offset_tracker: &mut OffsetTracker,
    ) {
        let (mut at, mut pending) = (prefix.start, prefix.len());
        for (position, id) in (position..).zip(ids) {
            let start = at;
            let mut left = if Some(*id) == self.unknown {
                self.unknown_end(text, at) - at
            } else {
                self.lengths[*id as usize] as usize
            };
            let skipped = left.min(pending);
            (left, pending) = (left - skipped, pending - skipped);
            while left > 0 {
                left -= if text[at] == b' ' { META.len() } else { 1 };
                at += 1;
            }
            // The source of the added space is the first character, which is in a span or not.
            offset_tracker.token(position, origin.of(start, at.max(start + 1)));
        }
    }
}

impl SentencePieceBpe {
    /// The end of the unknown characters from `at` on that become one token.
    fn unknown_end(&self, text: &[u8], at: usize) -> usize {
        let fuse = matches!(self.missing, MissingCharacters::Unknown { fuse: true, .. });
        let mut end = at + decode(text, at).1;
        while fuse && end < text.len() {
            let (code_point, length) = decode(text, end);
            if self.alphabet.get(code_point) != NONE {
                break;
            }
            end += length;
        }
        end
    }
}

/// The parts of a token between the cuts before spaces.
fn parts_of(token: &[u8], split: bool) -> impl Iterator<Item = &[u8]> {
    let mut rest = token;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let space = rest.iter().skip(1).position(|byte| split && *byte == b' ');
        let (part, after) = rest.split_at(space.map_or(rest.len(), |space| space + 1));
        rest = after;
        Some(part)
    })
}

impl PieceSpeller for SentencePieceBpe {
    fn spell(&self, piece: &[u8], word: &mut Vec<Symbol>) {
        let mut at = 0;
        while at < piece.len() {
            let (code_point, length) = decode(piece, at);
            let symbol = self.alphabet.get(code_point);
            let end = at + length;
            at = match &self.missing {
                _ if symbol != NONE => {
                    word.push(symbol);
                    end
                }
                MissingCharacters::Bytes(bytes) => {
                    word.extend(piece[at..end].iter().map(|byte| bytes[usize::from(*byte)]));
                    end
                }
                MissingCharacters::Unknown { token, .. } => {
                    word.push(*token);
                    self.unknown_end(piece, at)
                }
            };
        }
    }

    #[inline]
    fn initial(&self, piece: &[u8], word: &[Symbol], at: usize) -> Symbol {
        // With a symbol for each byte, two of ASCII are those of their characters; characters without a token merge
        // with nothing.
        if piece.len() == word.len() && piece[at] | piece[at + 1] < 0x80 {
            return self.pairs[usize::from(piece[at]) << 7 | usize::from(piece[at + 1])];
        }
        self.bpe.merges.pair(word[at], word[at + 1])
    }
}

impl PieceEncoder for SentencePieceBpe {
    #[inline]
    fn fill(&self, text: &[u8], cursor: &mut SplitCursor, ends: &mut [u32]) -> usize {
        self.edges.fill(text, cursor, ends)
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

    fn record_offsets(
        &self,
        text: &[u8],
        begin: usize,
        position: usize,
        ids: &[u32],
        origin: SourceRanges<'_>,
        offset_tracker: &mut OffsetTracker,
    ) {
        self.sources(text, begin..begin, position, ids, origin, offset_tracker);
    }
}
