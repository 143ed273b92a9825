//! What objectives know of the tokens of a tokenizer: named and special ones, and those that begin words.

use fastpack_tokenize::Tokenizer;

use super::kind::Vocabulary;
use crate::error::{Error, Result};

/// Some tokens, by their ids.
#[derive(Clone, Debug, Default)]
pub(super) struct Ids {
    bits: Vec<u64>,
}

impl Ids {
    fn add(&mut self, id: u32) {
        let (word, bit) = (id as usize / 64, id % 64);
        if word >= self.bits.len() {
            self.bits.resize(word + 1, 0);
        }
        self.bits[word] |= 1 << bit;
    }

    /// Whether a token is among them.
    pub(super) fn has(&self, id: u32) -> bool {
        self.bits.get(id as usize / 64).is_some_and(|word| word >> (id % 64) & 1 == 1)
    }
}

/// The id of a named token, such as `mask_token`.
pub(super) fn id_of(vocabulary: Vocabulary<'_>, name: &str) -> Option<u32> {
    let (_, content) = vocabulary.named.iter().find(|(known, _)| known == name)?;
    vocabulary.tokenizer?.token_to_id(content)
}

/// The special tokens: named ones, and added ones that are marked as special.
pub(super) fn special_ids(vocabulary: Vocabulary<'_>) -> Ids {
    let mut ids = Ids::default();
    let Some(tokenizer) = vocabulary.tokenizer else { return ids };
    let named = vocabulary.named.iter().map(|(_, content)| content);
    let contents = named.chain(tokenizer.special_tokens());
    contents.filter_map(|content| tokenizer.token_to_id(content)).for_each(|id| ids.add(id));
    ids
}

/// Where words begin.
#[derive(Clone, Debug)]
pub(super) struct Words {
    /// The tokens that begin a word wherever they stand.
    begin: Ids,
    /// The tokens that consist of white space, after which a word begins.
    blank: Ids,
}

impl Words {
    /// Whether a token begins a word after the token `before`; `None` where nothing or a special token stands.
    pub(super) fn begins(&self, before: Option<u32>, id: u32) -> bool {
        self.begin.has(id) || before.is_none_or(|before| self.blank.has(before))
    }
}

/// The marks of white space that tokens of byte-level and `SentencePiece` tokenizers have.
const BLANKS: [char; 5] = ['Ġ', 'Ċ', 'ĉ', 'č', '▁'];

/// The mark of `WordPiece` tokens that go on with a word.
const GOES_ON: &str = "##";

/// The tokens that begin words: with `WordPiece` those without `##`, else those that begin with white space.
///
/// Fails with [`Error::Option`] where tokens have neither mark.
pub(super) fn words(tokenizer: &Tokenizer) -> Result<Words> {
    let (mut pieces, mut spaced) = (0_u32, 0_u32);
    let (mut plain, mut marked, mut blank) = (Ids::default(), Ids::default(), Ids::default());
    for id in 0..=tokenizer.largest_id().unwrap_or(0) {
        let Some(token) = tokenizer.id_to_token(id) else { continue };
        if token.len() > GOES_ON.len() && token.starts_with(GOES_ON) {
            pieces += 1;
        } else {
            plain.add(id);
        }
        if token.starts_with(BLANKS) {
            spaced += 1;
            marked.add(id);
            if token.chars().all(|character| BLANKS.contains(&character)) {
                blank.add(id);
            }
        }
    }
    if pieces == 0 && spaced == 0 {
        let reason = "cannot be given: the tokens of this tokenizer do not say where words begin";
        return Err(Error::option("whole_word_mask", reason));
    }
    let begin = if pieces > spaced { plain } else { marked };
    Ok(Words { begin, blank: if pieces > spaced { Ids::default() } else { blank } })
}
