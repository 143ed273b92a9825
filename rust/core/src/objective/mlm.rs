//! [`Mlm`]: some tokens are masked, and predicted from those on both sides.

use super::kind::{
    ColumnValues, Objective, ObjectiveColumn, ObjectiveVocabulary, RowPart, UNTRAINED,
    inputs_and_labels,
};
use super::vocabulary::{TokenSet, WordStarts, id_of, special_ids, words};
use crate::config::MlmOptions;
use crate::error::{Error, Result};
use crate::util::random::KeyedRandom;

/// The first of the random numbers that replace chosen tokens, beyond those that choose them.
const REPLACING: u64 = 1 << 40;

/// The first of the random numbers that give random tokens.
const RANDOM: u64 = 2 << 40;

/// Some tokens are masked, and predicted from those on both sides: 15 % of them, of which 80 % become the mask token
/// and 10 % a random token, unless the options say otherwise.
#[derive(Debug)]
pub(super) struct Mlm {
    /// A token is chosen if a 32-bit number is below this.
    chosen: u64,
    /// A chosen token becomes the mask token if another is below this.
    masked: u64,
    /// It becomes a random token if that is below this, and else stays.
    replaced: u64,
    mask_id: i32,
    /// The number of tokens that a random token is drawn from.
    vocabulary: usize,
    /// The special tokens, which are never chosen.
    special: TokenSet,
    /// The beginnings of words, if whole words are chosen.
    words: Option<WordStarts>,
}

impl Mlm {
    /// The objective with the tokens of a tokenizer.
    ///
    /// Fails with [`Error::Option`] if there is no tokenizer, or one without a mask token.
    pub(super) fn new(options: &MlmOptions, vocabulary: ObjectiveVocabulary<'_>) -> Result<Self> {
        let refuse = |reason: &'static str| Error::option("objective", reason);
        let Some(tokenizer) = vocabulary.tokenizer else {
            let reason = "is \"mlm\", which needs the tokenizer of the ids: its mask token, and which tokens are special";
            return Err(refuse(reason));
        };
        let Some(mask) = id_of(vocabulary, "mask_token") else {
            return Err(refuse(
                "is \"mlm\", but the tokenizer names no `mask_token`, which stands for masked tokens; use the tokenizer \
                 of a masked language model such as BERT",
            ));
        };
        let special = special_ids(vocabulary);
        let words = options.whole_words.then(|| words(tokenizer, &special)).transpose()?;
        let scaled = |share: f64| (share * 2_f64.powi(32)).round();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of 2^32"
        )]
        let below = |share: f64| scaled(share) as u64;
        Ok(Self {
            chosen: below(options.probability.get()),
            masked: below(options.mask_replace.get()),
            replaced: below(options.mask_replace.get() + options.random_replace.get()),
            mask_id: mask.cast_signed(),
            vocabulary: tokenizer.vocab_size(),
            special,
            words,
        })
    }

    /// The replacement of a chosen token.
    fn replacement(&self, id: i32, chance: KeyedRandom, at: u64) -> i32 {
        let number = chance.at(REPLACING + at) >> 32;
        if number < self.masked {
            self.mask_id
        } else if number < self.replaced {
            i32::try_from(chance.below(RANDOM + at, self.vocabulary)).unwrap_or(self.mask_id)
        } else {
            id
        }
    }
}

impl Objective for Mlm {
    fn columns(&self) -> Vec<ObjectiveColumn> {
        inputs_and_labels()
    }

    fn is_random(&self) -> bool {
        true
    }

    fn make(&self, part: RowPart<'_>, key: u64, columns: &mut [ColumnValues]) -> u64 {
        let [inputs, labels] = columns else { unreachable!("two columns") };
        let (ids, chance) = (part.ids(), KeyedRandom::of(key, part.first));
        let start = inputs.numbers.len();
        inputs.numbers.extend(ids.iter().map(|id| id.cast_signed()));
        labels.numbers.resize(start + ids.len(), UNTRAINED);
        let (inputs, labels) = (&mut inputs.numbers[start..], &mut labels.numbers[start..]);
        // The first token begins a word.
        let (mut count, mut word, mut is_start) = (0, false, true);
        for (pair, numbers) in (0_u64..).zip(0..ids.len().div_ceil(2)) {
            let number = chance.at(pair);
            for (half, index) in (2 * numbers..ids.len().min(2 * numbers + 2)).enumerate() {
                let drawn = number >> (32 * half) & u64::from(u32::MAX);
                let mut chosen = drawn < self.chosen;
                if let Some(words) = &self.words {
                    // A word is chosen by the number of its first token.
                    let place = words.place(ids[index]);
                    // A choice of two values, not of two ways: where words begin cannot be predicted.
                    word = [word, chosen][usize::from(is_start | place.starts_word())];
                    chosen = word;
                    is_start = place.ends();
                }
                if chosen && !self.special.has(ids[index]) {
                    labels[index] = inputs[index];
                    inputs[index] = self.replacement(inputs[index], chance, index as u64);
                    count += 1;
                }
            }
        }
        count
    }
}
