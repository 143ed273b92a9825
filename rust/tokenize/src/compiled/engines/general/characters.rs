//! BPE over the characters of a piece, spelled as the reference spells them.
//!
//! A character can have different tokens at the start, within and at the end of a piece:
//! `continuing_subword_prefix` and `end_of_word_suffix`. A character without a token is spelled in bytes,
//! becomes the unknown token, or gives no id.

use std::ops::Range;

use super::super::alphabet::SymbolAlphabet;
use super::super::bpe::{Bpe, PieceSpeller};
use crate::compiled::cutting::cut_boundaries::CutBoundaries;
use crate::compiled::thread_caches::{CacheMiss, ThreadMemory};
use crate::models::merge::{Merge, Merges, NONE, Symbol};
use crate::pieces::{PieceKey, Vocabulary, WholeToken};
use crate::split::decode;

/// The texts that a token has around its character.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Affixes {
    /// The text in front of every character but the first.
    pub(crate) prefix: String,
    /// The text after the last character.
    pub(crate) suffix: String,
}

impl Affixes {
    fn is_empty(&self) -> bool {
        self.prefix.is_empty() && self.suffix.is_empty()
    }

    /// The positions in a piece at which tokens can differ.
    fn sides(&self) -> impl Iterator<Item = TokenPosition> + use<> {
        let firsts = if self.prefix.is_empty() { &[true][..] } else { &[true, false] };
        let lasts = if self.suffix.is_empty() { &[false][..] } else { &[true, false] };
        firsts
            .iter()
            .flat_map(|first| lasts.iter().map(|last| TokenPosition { first: *first, last: *last }))
    }

    /// The text that a token stands for at a position in a piece; `None` if the token cannot occur there.
    fn text<'a>(&self, token: &'a [u8], side: TokenPosition) -> Option<&'a [u8]> {
        let rest = if side.first { token } else { token.strip_prefix(self.prefix.as_bytes())? };
        let text = if side.last { rest.strip_suffix(self.suffix.as_bytes())? } else { rest };
        (!text.is_empty() && std::str::from_utf8(text).is_ok()).then_some(text)
    }

    /// The vocabulary indices of the single-character tokens that spell a token's text; `None` if a character
    /// has no token.
    fn spell(
        &self,
        vocabulary: &Vocabulary,
        token: &[u8],
        side: TokenPosition,
    ) -> Option<Vec<u32>> {
        let text = self.text(token, side)?;
        let (mut at, mut indices, mut name) = (0, Vec::new(), Vec::new());
        while at < text.len() {
            let end = at + decode(text, at).1;
            name.clear();
            if at > 0 || !side.first {
                name.extend_from_slice(self.prefix.as_bytes());
            }
            name.extend_from_slice(&text[at..end]);
            if side.last && end == text.len() {
                name.extend_from_slice(self.suffix.as_bytes());
            }
            indices.push(vocabulary.get(&name)?);
            at = end;
        }
        Some(indices)
    }
}

/// The position of a token in a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TokenPosition {
    /// True if the piece begins with it.
    first: bool,
    /// True if the piece ends with it.
    last: bool,
}

impl TokenPosition {
    /// The index of the position in a list of all four.
    fn index(self) -> usize {
        usize::from(self.first) << 1 | usize::from(self.last)
    }
}

/// The tokens for characters that have no token.
#[derive(Clone, Debug)]
pub(crate) struct Fallback {
    /// The token of each byte, if bytes are spelled out.
    pub(crate) bytes: Option<Box<[Option<u32>; 256]>>,
    /// The token of an unknown character; if it is `None`, the character gives no id.
    pub(crate) unknown: Option<u32>,
    /// True if adjacent unknown characters become one token.
    pub(crate) fuse: bool,
}

/// A BPE model over characters, shared by all threads.
pub(crate) struct Characters {
    bpe: Bpe,
    /// The symbols of single characters at each position in a piece, by [`TokenPosition::index`].
    alphabets: Vec<SymbolAlphabet>,
    affixed: bool,
    /// The symbol of each byte, or [`NONE`]; `None` if bytes are not spelled out.
    bytes: Option<Box<[Symbol; 256]>>,
    unknown: Option<Symbol>,
    fuse: bool,
    cuts: CutBoundaries,
    /// The number of initial symbols that each symbol is merged from.
    counts: Vec<u32>,
}

impl Characters {
    /// Makes a model; `ids` are the ids of the tokens of `vocabulary`, in its order. The error names the part
    /// of the model that is not supported.
    pub(crate) fn new(
        vocabulary: &Vocabulary,
        ids: &[u32],
        merges: &[Merge],
        ignore_merges: bool,
        affixes: &Affixes,
        fallback: &Fallback,
    ) -> Result<Self, String> {
        let bytes = fallback.bytes.iter().flat_map(|bytes| bytes.iter().flatten());
        let mut unmerged: Vec<u32> = bytes.chain(&fallback.unknown).copied().collect();
        unmerged.sort_unstable();
        let is_merged = |token: u32| unmerged.binary_search(&token).is_ok();
        if merges.iter().any(|merge| is_merged(merge.left) || is_merged(merge.right)) {
            return Err("model BPE whose merges take in the unk_token or a byte token".to_owned());
        }
        let sides = sides(vocabulary, merges, affixes)?;
        let spell = |token: u32, out: &mut Vec<u32>| {
            let side = sides[token as usize];
            let spelled =
                side.and_then(|side| affixes.spell(vocabulary, vocabulary.token(token), side));
            out.extend(spelled.iter().flatten());
            spelled.is_some()
        };
        let (answers, of_answers) = whole(vocabulary, affixes, &sides);
        let bpe = Bpe::with_answers(
            vocabulary.len(),
            ids,
            merges,
            ignore_merges,
            spell,
            &answers,
            |merges: &Merges, index: u32| {
                let token = of_answers[index as usize];
                let formed = merges.is_reachable(token) && sides[token as usize].is_some();
                WholeToken::new(ids[token as usize], formed)
            },
        );
        let merges = &bpe.merges;
        let alphabets = (0..4)
            .map(|index| TokenPosition { first: index & 2 != 0, last: index & 1 != 0 })
            .map(|side| TokenPosition {
                first: side.first || affixes.prefix.is_empty(),
                last: side.last && !affixes.suffix.is_empty(),
            })
            .map(|side| {
                let text = |(index, token)| Some((index, affixes.text(token, side)?));
                SymbolAlphabet::new(vocabulary.tokens().filter_map(text).filter_map(
                    |(index, text)| {
                        let (code_point, length) = decode(text, 0);
                        (length == text.len()).then(|| (code_point, merges.symbol(index)))
                    },
                ))
            })
            .collect();
        let mut counts = vec![1; vocabulary.len()];
        let mut spelled = Vec::new();
        let mut formed = Vec::new();
        for (index, token) in vocabulary.tokens() {
            spelled.clear();
            if merges.is_reachable(index) && spell(index, &mut spelled) {
                let count = u32::try_from(spelled.len()).map_err(|error| error.to_string())?;
                counts[merges.symbol(index) as usize] = count;
                formed.push(token);
            }
        }
        let symbol = |token: Option<u32>| token.map_or(NONE, |token| merges.symbol(token));
        Ok(Self {
            alphabets,
            affixed: !affixes.is_empty(),
            bytes: fallback.bytes.as_ref().map(|bytes| Box::new(bytes.map(symbol))),
            unknown: fallback.unknown.map(|token| merges.symbol(token)),
            fuse: fallback.fuse,
            cuts: CutBoundaries::new(formed.into_iter()),
            counts,
            bpe,
        })
    }

    /// True if a piece that is a token gets that token's id even if the merges give other ids.
    pub(super) fn ignores_merges(&self) -> bool {
        self.bpe.ignore_merges
    }

    /// Prefetches the memory that [`Self::learn`] reads first.
    #[inline]
    pub(super) fn expect(&self, key: PieceKey) {
        self.bpe.prefetch(key);
    }

    /// As [`crate::compiled::piece_encoder::PieceEncoder::learn`].
    pub(super) fn learn(&self, text: &[u8], gaps: &mut [CacheMiss], memory: &mut ThreadMemory) {
        self.bpe.learn(self, text, gaps, memory);
    }

    /// Appends the ids of a piece, or of a part of a piece.
    pub(super) fn encode(
        &self,
        piece: &[u8],
        part: bool,
        memory: &mut ThreadMemory,
        ids: &mut Vec<u32>,
    ) {
        self.bpe.encode(self, piece, part, memory, ids);
    }

    /// The end of the first part of a long piece; the part is encoded on its own.
    pub(super) fn cut(&self, piece: &[u8], whole: bool) -> usize {
        if self.affixed || whole && self.ignores_merges() && self.bpe.is_token(piece) {
            return piece.len();
        }
        let known = |at: usize| self.alphabet(false, false).get(decode(piece, at).0) != NONE;
        let starts = || (0..piece.len()).filter(|at| piece[*at] & 0xC0 != 0x80);
        if whole && self.unknown.is_none() && !starts().all(known) {
            // The source ranges of its tokens depend on the number of bytes before them that give no id.
            return piece.len();
        }
        let mut at = 0;
        loop {
            let mut before = at;
            at = self.cuts.next::<false>(piece, at);
            if at == piece.len() {
                return at;
            }
            before = (before..at).rev().find(|at| piece[*at] & 0xC0 != 0x80).unwrap_or(before);
            // Adjacent unknown characters can be one token, which is written after the bytes of other
            // characters.
            if known(before) && known(at) {
                return at;
            }
        }
    }

    #[inline]
    fn alphabet(&self, first: bool, last: bool) -> &SymbolAlphabet {
        &self.alphabets[TokenPosition { first, last }.index()]
    }

    /// Calls `write_symbol` with each symbol of a piece, and with the number of the piece's bytes that the reference
    /// counts for it.
    #[inline]
    fn spelled(&self, piece: &[u8], mut write_symbol: impl FnMut(Symbol, usize)) {
        let mut at = 0;
        let mut pending: Option<usize> = None;
        while at < piece.len() {
            let (code_point, length) = decode(piece, at);
            let end = at + length;
            let symbol = self.alphabet(at == 0, end == piece.len()).get(code_point);
            let bytes = &piece[at..end];
            at = end;
            if symbol != NONE {
                if let Some((unknown, length)) = self.unknown.zip(pending.take()) {
                    write_symbol(unknown, length);
                }
                write_symbol(symbol, length);
                continue;
            }
            if let Some(table) = &self.bytes
                && bytes.iter().all(|byte| table[usize::from(*byte)] != NONE)
            {
                // The reference writes a pending unknown token after the bytes.
                for byte in bytes {
                    write_symbol(table[usize::from(*byte)], 1);
                }
                continue;
            }
            let Some(unknown) = self.unknown else { continue };
            pending = match pending {
                Some(before) if self.fuse => Some(before + length),
                Some(before) => {
                    write_symbol(unknown, before);
                    Some(length)
                }
                None => Some(length),
            };
        }
        if let Some((unknown, length)) = self.unknown.zip(pending) {
            write_symbol(unknown, length);
        }
    }

    /// Calls `token` with the bytes of the piece that the reference counts for each of its `count` tokens.
    pub(super) fn each(&self, piece: &[u8], count: usize, mut token: impl FnMut(Range<usize>)) {
        if count == 1 && self.ignores_merges() && self.bpe.is_token(piece) {
            return token(0..piece.len());
        }
        let (mut lengths, mut word) = (Vec::new(), Vec::new());
        self.spelled(piece, |symbol, length| {
            word.push(symbol);
            lengths.push(length);
        });
        let mut memory = crate::models::merge::Windows::default();
        let start = word.clone();
        self.bpe
            .merges
            .merge(&mut word, &mut memory, |at| self.bpe.merges.pair(start[at], start[at + 1]));
        let (mut at, mut rest) = (0, lengths.as_slice());
        for symbol in word {
            let (own, others) = rest.split_at(self.counts[symbol as usize] as usize);
            let end = at + own.iter().sum::<usize>();
            token(at..end);
            (at, rest) = (end, others);
        }
    }
}

/// The position at which each token can be the product of merges, if there is one.
fn sides(
    vocabulary: &Vocabulary,
    merges: &[Merge],
    affixes: &Affixes,
) -> Result<Vec<Option<TokenPosition>>, String> {
    let all: Vec<TokenPosition> = affixes.sides().collect();
    if let [side] = all[..] {
        return Ok(vec![Some(side); vocabulary.len()]);
    }
    let spelled = |token: u32, side| affixes.spell(vocabulary, vocabulary.token(token), side);
    let mut sides: Vec<Option<TokenPosition>> = vec![None; vocabulary.len()];
    for side in all {
        let side_merges = Merges::new(vocabulary.len(), merges, |token, out| {
            let indices = spelled(token, side);
            out.extend(indices.iter().flatten());
            indices.is_some()
        });
        for (token, found) in (0..).zip(&mut sides) {
            if !side_merges.is_reachable(token) {
                continue;
            }
            match found {
                Some(other) if spelled(token, *other) != spelled(token, side) => {
                    let name = String::from_utf8_lossy(vocabulary.token(token));
                    return Err(format!("model BPE whose token `{name}` has two spellings"));
                }
                _ => *found = Some(side),
            }
        }
    }
    Ok(sides)
}

/// The texts of the pieces that are one token each, and the token of each text.
fn whole(
    vocabulary: &Vocabulary,
    affixes: &Affixes,
    sides: &[Option<TokenPosition>],
) -> (Vocabulary, Vec<u32>) {
    let (mut texts, mut tokens) = (Vocabulary::with_capacity(vocabulary.len()), Vec::new());
    let side = TokenPosition { first: true, last: !affixes.suffix.is_empty() };
    for (index, token) in vocabulary.tokens() {
        if affixes.is_empty() {
            if texts.push(token).is_some() {
                tokens.push(index);
            }
            continue;
        }
        let spelled = affixes.spell(vocabulary, token, side);
        let here = sides[index as usize];
        let same = here.is_some_and(|here| affixes.spell(vocabulary, token, here) == spelled);
        if spelled.is_some()
            && same
            && affixes.text(token, side).is_some_and(|text| texts.push(text).is_some())
        {
            tokens.push(index);
        }
    }
    (texts, tokens)
}

impl PieceSpeller for Characters {
    #[inline]
    fn spell(&self, piece: &[u8], word: &mut Vec<Symbol>) {
        self.spelled(piece, |symbol, _| word.push(symbol));
    }

    #[inline]
    fn initial(&self, _: &[u8], word: &[Symbol], at: usize) -> Symbol {
        self.bpe.merges.pair(word[at], word[at + 1])
    }
}
