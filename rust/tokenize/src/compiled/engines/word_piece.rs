//! The `WordPiece` model: splits a word greedily into the longest tokens.

use crate::pieces::{Prefixes, ROOT};

/// The tokens in a prefix tree, shared by all threads.
pub(crate) struct WordPiece {
    tokens: Prefixes,
    /// The node from which the tokens within a word continue, if there are such tokens.
    continuing: Option<u32>,
    /// The id of a word that cannot be split into tokens.
    unknown: u32,
    /// The most characters of a word; a longer word is unknown.
    most: usize,
}

/// The parts of a [`WordPiece`].
pub(crate) struct WordPieceParts<'a> {
    /// The tokens and their ids. The ids are distinct and not far larger than the number of tokens.
    pub(crate) tokens: Vec<(&'a [u8], u32)>,
    /// The prefix of tokens that continue a word.
    pub(crate) prefix: &'a str,
    /// The id of a word that cannot be split into tokens.
    pub(crate) unknown: u32,
    /// The most characters of a word.
    pub(crate) most: usize,
}

impl WordPiece {
    pub(crate) fn new(parts: WordPieceParts<'_>) -> Self {
        let WordPieceParts { tokens, prefix, unknown, most } = parts;
        let tokens = Prefixes::new(tokens);
        Self { continuing: tokens.node(prefix.as_bytes()), tokens, unknown, most }
    }

    /// Splits a word, which is not empty, and appends `make(end, id)` for each token.
    pub(crate) fn cut<T>(&self, word: &[u8], out: &mut Vec<T>, make: impl Fn(usize, u32) -> T) {
        let start = out.len();
        let long = word.len() > self.most
            && word.iter().filter(|byte| **byte & 0xC0 != 0x80).count() > self.most;
        let (mut at, mut node) = (0, (!long).then_some(ROOT));
        while at < word.len() {
            let found = node.and_then(|node| self.tokens.longest(node, &word[at..]));
            let Some((length, id)) = found else {
                out.truncate(start);
                out.push(make(word.len(), self.unknown));
                return;
            };
            at += length;
            out.push(make(at, id));
            node = self.continuing;
        }
    }
}
