//! [`Viterbi`]: the tokens and scores of a unigram model, and the search for the best path through a text.

use std::ops::Range;

use super::cut_pairs::CutPairs;
use super::unigram_trie::UnigramTrie;
use crate::split::position;

/// The difference between the lowest score and the score of an unknown character.
const PENALTY: f64 = 10.0;

/// The start of the best path to a position at which no token ends.
const NOWHERE: u32 = u32::MAX;

/// The tokens and scores of a unigram model.
pub(crate) struct Viterbi {
    trie: UnigramTrie,
    /// The unknown token.
    unknown: u32,
    /// The score of an unknown character.
    unknown_score: f64,
    /// The byte tokens, if the bytes of unknown text are spelled out; `None` for a byte without a token.
    bytes: Option<Box<[Option<u32>; 256]>>,
    /// Bytes of each token; 0 for those that other text becomes too.
    lengths: Box<[u32]>,
    /// The places at which words can be cut.
    pub(crate) cuts: CutPairs,
}

/// The best path to a position in a text.
#[derive(Clone, Copy)]
struct BestPath {
    score: f64,
    /// The start of the last token on the path.
    start: u32,
    /// The place of that token in the trie, or [`UNKNOWN`].
    place: u32,
}

/// The place of unknown characters.
const UNKNOWN: u32 = u32::MAX;

/// A token of a text.
#[derive(Clone, Copy)]
struct FoundToken {
    start: u32,
    end: u32,
    token: u32,
}

/// The buffers of one thread for the search.
#[derive(Default)]
pub(crate) struct ViterbiBuffers {
    best: Vec<BestPath>,
    /// The tokens on the best path, from the end of the text back.
    path: Vec<FoundToken>,
}

impl Viterbi {
    /// Makes a model. No token is empty, `scores` are the tokens' finite scores, and `unknown` is one of the
    /// tokens.
    pub(crate) fn new<'a>(
        tokens: &(impl Iterator<Item = &'a [u8]> + Clone),
        scores: &[f64],
        unknown: u32,
        byte_fallback: bool,
    ) -> Self {
        let trie = UnigramTrie::new(tokens.clone().zip(0..), scores);
        let bytes = byte_fallback.then(|| {
            let mut bytes = Box::new([None; 256]);
            for (byte, token) in (0..=255_u8).zip(bytes.iter_mut()) {
                *token = trie.get(format!("<0x{byte:02X}>").as_bytes());
            }
            bytes
        });
        let least = scores
            .iter()
            .copied()
            .fold(f64::INFINITY, |least, it| if it < least { it } else { least });
        let unknown_score = least - PENALTY;
        let cuts = CutPairs::new(tokens, scores, unknown as usize, unknown_score);
        let mut lengths: Box<[u32]> = tokens.clone().map(|token| position(token.len())).collect();
        let spelled = bytes.iter().flat_map(|bytes| bytes.iter().copied().flatten());
        for token in spelled.chain([unknown]) {
            lengths[token as usize] = 0;
        }
        Self { trie, unknown, unknown_score, bytes, lengths, cuts }
    }

    /// Bytes of the text that becomes a token; `None` if that can be other text than the token's own.
    #[inline]
    pub(crate) fn length(&self, token: u32) -> Option<usize> {
        Some(self.lengths[token as usize] as usize).filter(|length| *length > 0)
    }

    /// Calls `token` with the range and the id of each token of `text`, which is UTF-8; `ways` are the
    /// buffers.
    pub(crate) fn each(
        &self,
        text: &[u8],
        ways: &mut ViterbiBuffers,
        mut token: impl FnMut(Range<usize>, u32),
    ) {
        let ViterbiBuffers { best, path } = ways;
        self.follow(text, best);
        path.clear();
        let mut end = text.len();
        while end > 0 {
            let BestPath { start, place, .. } = best[end];
            let token = if place == UNKNOWN { self.unknown } else { self.trie.token(place) };
            path.push(FoundToken { start, end: position(end), token });
            end = start as usize;
        }
        let mut rest = path.as_slice();
        while let Some((found, before)) = rest.split_last() {
            rest = before;
            let start = found.start as usize;
            let mut end = found.end as usize;
            if found.token != self.unknown {
                token(start..end, found.token);
                continue;
            }
            // Adjacent unknown characters are one token: the vocabulary's token for their text, their bytes,
            // or the unknown token.
            while let Some((next, before)) =
                rest.split_last().filter(|(it, _)| it.token == self.unknown)
            {
                end = next.end as usize;
                rest = before;
            }
            self.unknown(&text[start..end], |id| token(start..end, id));
        }
    }

    /// Calls `token` with the ids of unknown text.
    fn unknown(&self, text: &[u8], mut token: impl FnMut(u32)) {
        if let Some(id) = self.trie.get(text) {
            return token(id);
        }
        let byte = |byte: &u8| self.bytes.as_ref().and_then(|bytes| bytes[usize::from(*byte)]);
        if text.iter().all(|it| byte(it).is_some()) {
            text.iter().filter_map(byte).for_each(token);
        } else {
            token(self.unknown);
        }
    }

    /// Finds the best path to every position.
    fn follow(&self, text: &[u8], ways: &mut Vec<BestPath>) {
        ways.clear();
        ways.resize(text.len() + 1, BestPath { score: 0.0, start: NOWHERE, place: UNKNOWN });
        let mut at = 0;
        while at < text.len() {
            let before = ways[at].score;
            let start = position(at);
            let length = character(text[at]);
            let mut alone = false;
            let better = |way: &mut BestPath, score: f64, place: u32| {
                if way.start == NOWHERE || score > way.score {
                    *way = BestPath { score, start, place };
                }
            };
            self.trie.each(&text[at..], |bytes, score, place| {
                better(&mut ways[at + bytes], score + before, place);
                alone |= bytes == length;
            });
            if !alone {
                better(&mut ways[at + length], self.unknown_score + before, UNKNOWN);
            }
            at += length;
        }
    }
}

/// The length in bytes of the character that begins with `first`.
#[inline]
fn character(first: u8) -> usize {
    match first {
        0..0xC0 => 1,
        0xC0..0xE0 => 2,
        0xE0..0xF0 => 3,
        _ => 4,
    }
}
