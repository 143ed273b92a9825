//! The `WordPiece` model: a word to the longest tokens that it begins with, one behind the other.

use crate::pieces::{Prefixes, ROOT};

/// Tokens by their beginnings, shared by all threads.
pub(super) struct WordPiece {
    tokens: Prefixes,
    /// The node that the tokens within a word go on from, if there are any.
    continuing: Option<u32>,
    /// The id of what is no word.
    unknown: u32,
    /// A word of more characters is unknown.
    most: usize,
}

/// The parts of a [`WordPiece`].
pub(super) struct Parts<'a> {
    /// The tokens, and the ids, which differ and are not far larger than the number of tokens.
    pub(super) tokens: Vec<(&'a [u8], u32)>,
    /// What tokens that continue a word begin with.
    pub(super) prefix: &'a str,
    /// The id of what is no word.
    pub(super) unknown: u32,
    /// The most characters of a word.
    pub(super) most: usize,
}

impl WordPiece {
    pub(super) fn new(parts: Parts<'_>) -> Self {
        let Parts { tokens, prefix, unknown, most } = parts;
        let tokens = Prefixes::new(tokens);
        Self { continuing: tokens.node(prefix.as_bytes()), tokens, unknown, most }
    }

    /// Appends what `make` makes of the end and the id of each token of a word, which is not empty.
    pub(super) fn cut<T>(&self, word: &[u8], out: &mut Vec<T>, make: impl Fn(usize, u32) -> T) {
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
