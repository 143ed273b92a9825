//! The tokens of a tokenizer that objectives know: named and special ones, and those that begin words.

use fastpack_tokenize::Tokenizer;

use super::kind::ObjectiveVocabulary;
use crate::error::{Error, Result};

/// Some tokens, by their ids.
#[derive(Clone, Debug, Default)]
pub(super) struct TokenSet {
    bits: Vec<u64>,
}

impl TokenSet {
    fn add(&mut self, id: u32) {
        let (word, bit) = (id as usize / 64, id % 64);
        if word >= self.bits.len() {
            self.bits.resize(word + 1, 0);
        }
        self.bits[word] |= 1 << bit;
    }

    /// True if a token is among them.
    pub(super) fn has(&self, id: u32) -> bool {
        self.bits.get(id as usize / 64).is_some_and(|word| word >> (id % 64) & 1 == 1)
    }
}

/// The id of a named token, such as `mask_token`.
pub(super) fn id_of(vocabulary: ObjectiveVocabulary<'_>, name: &str) -> Option<u32> {
    let (_, content) = vocabulary.named.iter().find(|(known, _)| known == name)?;
    vocabulary.tokenizer?.token_to_id(content)
}

/// The special tokens: named ones, and added ones that are marked as special.
pub(super) fn special_ids(vocabulary: ObjectiveVocabulary<'_>) -> TokenSet {
    let mut ids = TokenSet::default();
    let Some(tokenizer) = vocabulary.tokenizer else { return ids };
    let named = vocabulary.named.iter().map(|(_, content)| content);
    let contents = named.chain(tokenizer.special_tokens());
    contents.filter_map(|content| tokenizer.token_to_id(content)).for_each(|id| ids.add(id));
    ids
}

/// The tokens that begin words.
#[derive(Clone, Debug)]
pub(super) struct WordStarts {
    places: Vec<WordPlace>,
}

/// The place of a token in words: it begins a word, or a word begins after it, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WordPlace(u8);

impl WordPlace {
    const STARTS_WORD: Self = Self(1);
    const ENDS: Self = Self(2);

    /// True if the token begins a word in any place.
    pub(super) fn starts_word(self) -> bool {
        self.0 & Self::STARTS_WORD.0 != 0
    }

    /// True if a word begins after the token: it is white space, or special.
    pub(super) fn ends(self) -> bool {
        self.0 & Self::ENDS.0 != 0
    }

    fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl WordStarts {
    /// The place of a token among words.
    pub(super) fn place(&self, id: u32) -> WordPlace {
        self.places.get(id as usize).copied().unwrap_or_default()
    }
}

/// The marks of white space that tokens of byte-level and `SentencePiece` tokenizers have.
const BLANKS: [char; 5] = ['Ġ', 'Ċ', 'ĉ', 'č', '▁'];

/// The mark of `WordPiece` tokens that go on with a word.
const GOES_ON: &str = "##";

/// The tokens that begin words: with `WordPiece` those without `##`, else those that begin with white space.
///
/// Fails with [`Error::Option`] where tokens have neither mark.
pub(super) fn words(tokenizer: &Tokenizer, special: &TokenSet) -> Result<WordStarts> {
    let (mut pieces, mut spaced) = (0_u32, 0_u32);
    let ids = 0..=tokenizer.largest_id().unwrap_or(0);
    let (mut by_pieces, mut by_spaces): (Vec<WordPlace>, Vec<WordPlace>) =
        ids.clone().map(|_| (WordPlace::default(), WordPlace::default())).unzip();
    for ((id, piece), space) in ids.zip(&mut by_pieces).zip(&mut by_spaces) {
        if special.has(id) {
            piece.add(WordPlace::ENDS);
            space.add(WordPlace::ENDS);
        }
        let Some(token) = tokenizer.id_to_token(id) else { continue };
        if token.len() > GOES_ON.len() && token.starts_with(GOES_ON) {
            pieces += 1;
        } else {
            piece.add(WordPlace::STARTS_WORD);
        }
        if token.starts_with(BLANKS) {
            spaced += 1;
            space.add(WordPlace::STARTS_WORD);
            if token.chars().all(|character| BLANKS.contains(&character)) {
                space.add(WordPlace::ENDS);
            }
        }
    }
    if pieces == 0 && spaced == 0 {
        let reason = "cannot be given: the tokens of this tokenizer do not say where words begin";
        return Err(Error::option("objective.whole_words", reason));
    }
    Ok(WordStarts { places: if pieces > spaced { by_pieces } else { by_spaces } })
}
