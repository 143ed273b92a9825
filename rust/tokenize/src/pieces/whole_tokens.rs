//! The token of each whole piece that is in the vocabulary, shared by all threads: a look-up reads one cache
//! line.

use super::Vocabulary;
use super::key::{LONGEST, PieceKey};
use super::piece_lines::PieceLines;

/// The id of a token, and whether the merges form the token from its own text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WholeToken(u32);

/// The bit that says that the merges give other ids; ids are signed, so the bit is free.
const UNFORMED: u32 = 1 << 31;

impl WholeToken {
    /// Makes an answer; `id` is not negative as a signed number.
    pub(crate) fn new(id: u32, formed: bool) -> Self {
        Self(if formed { id } else { id | UNFORMED })
    }

    /// The id.
    #[inline]
    pub(crate) fn id(self) -> u32 {
        self.0 & !UNFORMED
    }

    /// True if the merges form the token from its own text.
    #[inline]
    pub(crate) fn is_formed(self) -> bool {
        self.0 & UNFORMED == 0
    }
}

/// A table of the tokens of a vocabulary by their bytes.
pub(crate) struct WholeTokens {
    short: PieceLines,
    /// The tokens that are too long for a key.
    long: Vocabulary,
    /// The answer for each token in `long`.
    of_long: Vec<WholeToken>,
}

impl WholeTokens {
    /// The tokens of `vocabulary`; `of(index)` is the answer for the token with that index.
    pub(crate) fn new(vocabulary: &Vocabulary, of: impl Fn(u32) -> WholeToken) -> Self {
        let tokens = vocabulary.tokens().filter(|(_, token)| token.len() > LONGEST);
        let count = tokens.clone().count();
        let (mut long, mut of_long) = (Vocabulary::with_capacity(count), Vec::with_capacity(count));
        for (index, token) in tokens {
            if long.push(token).is_some() {
                of_long.push(of(index));
            }
        }
        Self { short: vocabulary.short().map(|index| of(index).0), long, of_long }
    }

    /// Prefetches the line that [`Self::get`] reads.
    #[inline]
    pub(crate) fn prefetch(&self, key: PieceKey) {
        self.short.prefetch(key);
    }

    /// The token with the bytes of `key`, which must not be the key of a part.
    #[inline]
    pub(crate) fn get(&self, key: PieceKey) -> Option<WholeToken> {
        self.short.get(key).map(WholeToken)
    }

    /// The token with the bytes of `piece`, of any length.
    pub(crate) fn find(&self, piece: &[u8]) -> Option<WholeToken> {
        match PieceKey::of(piece) {
            Some(key) => self.get(key),
            None => self.long.get(piece).map(|index| self.of_long[index as usize]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_is_found_and_nothing_else() {
        let tokens: Vec<String> =
            (0..5000_u32).map(|n| format!("{:x}", n.wrapping_pow(4))).collect();
        let longer = tokens.iter().map(|token| format!("{token}, and far behind it"));
        let mut vocabulary = Vocabulary::with_capacity(2 * tokens.len());
        let mut kept = Vec::new();
        for token in tokens.iter().cloned().chain(longer) {
            if vocabulary.push(token.as_bytes()).is_some() {
                kept.push(token);
            }
        }
        let answers = WholeTokens::new(&vocabulary, |index| {
            WholeToken::new(index + 7, index.is_multiple_of(2))
        });
        for (index, token) in (0..).zip(&kept) {
            assert_eq!(vocabulary.get(token.as_bytes()), Some(index));
            let found = answers.find(token.as_bytes()).expect("the token is there");
            assert_eq!((found.id(), found.is_formed()), (index + 7, index.is_multiple_of(2)));
            assert_eq!(vocabulary.push(token.as_bytes()), None, "{token} twice");
            assert_eq!(answers.find(format!("{token}-").as_bytes()), None);
        }
        assert_eq!(answers.find(b""), None);
    }
}
