//! [`Fim`]: the middle of a document is predicted from what stands before and after it.

use fastpack_tokenize::Tokenizer;

use super::kind::{
    ColumnValues, Objective, ObjectiveColumn, ObjectiveVocabulary, PartSize, RowLimits, RowPart,
    UNTRAINED, inputs_and_labels,
};
use super::vocabulary::{TokenSet, special_ids};
use crate::config::FimOptions;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::util::random::KeyedRandom;

/// The tokens before prefix, suffix and middle in published tokenizers.
const KNOWN: [[&str; 3]; 5] = [
    ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"],
    ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"],
    ["<fim-prefix>", "<fim-suffix>", "<fim-middle>"],
    ["▁<PRE>", "▁<SUF>", "▁<MID>"],
    ["<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"],
];

/// The numbers that a piece draws.
const CUT: u64 = 0;
const SWAPPED: u64 = 1;
const PLACES: [u64; 2] = [2, 3];

/// The middle of a document is predicted from what stands before and after it: prefix, suffix, middle.
#[derive(Debug)]
pub(super) struct Fim {
    /// A piece is cut in three if a 32-bit number is below this.
    cut: u64,
    /// Its suffix stands first if another is below this.
    swapped: u64,
    prefix: i32,
    suffix: i32,
    middle: i32,
    /// The special tokens, which stay where they are at the ends of a document.
    special: TokenSet,
    /// True if each label stands one place before its token.
    shift: bool,
}

impl Fim {
    /// The objective with the tokens of a tokenizer.
    ///
    /// Fails with [`Error::Option`] if there is no tokenizer, or one without these tokens.
    pub(super) fn new(
        options: &FimOptions,
        shift: bool,
        vocabulary: ObjectiveVocabulary<'_>,
    ) -> Result<Self> {
        let Some(tokenizer) = vocabulary.tokenizer else {
            let reason = "is \"fim\", which needs the tokenizer of the ids: its tokens before prefix, suffix and middle";
            return Err(Error::option("objective", reason));
        };
        let [prefix, suffix, middle] = match &options.tokens {
            Some(tokens) => {
                let missing = tokens.iter().find(|token| tokenizer.token_to_id(token).is_none());
                if let Some(missing) = missing {
                    let reason = format!("names `{missing}`, which is no token of the tokenizer");
                    return Err(Error::option("objective.tokens", reason));
                }
                found(tokenizer, tokens.each_ref().map(String::as_str))
            }
            None => KNOWN.into_iter().find_map(|tokens| found(tokenizer, tokens)),
        }
        .ok_or_else(|| {
            let reason = "is \"fim\", but the tokenizer has no tokens such as `<fim_prefix>`, `<fim_suffix>` and \
                          `<fim_middle>`; name its own by `tokens`";
            Error::option("objective", reason)
        })?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of 2^32"
        )]
        let below = |share: f64| (share * 2_f64.powi(32)).round() as u64;
        Ok(Self {
            cut: below(options.rate.get()),
            swapped: below(options.spm_rate.get()),
            prefix,
            suffix,
            middle,
            special: special_ids(vocabulary),
            shift,
        })
    }

    /// True if a piece is cut in three.
    fn cuts(&self, chance: KeyedRandom) -> bool {
        chance.at(CUT) >> 32 < self.cut
    }
}

/// The ids of three tokens.
fn found(tokenizer: &Tokenizer, tokens: [&str; 3]) -> Option<[i32; 3]> {
    let [prefix, suffix, middle] = tokens.map(|token| tokenizer.token_to_id(token));
    Some([prefix?, suffix?, middle?].map(u32::cast_signed))
}

impl Objective for Fim {
    fn columns(&self) -> Vec<ObjectiveColumn> {
        inputs_and_labels()
    }

    fn is_random(&self) -> bool {
        true
    }

    fn size(&self, part: RowPart<'_>, key: u64) -> Option<PartSize> {
        let tokens = part.length + 3;
        self.cuts(KeyedRandom::of(key, part.first)).then_some(PartSize { tokens, targets: 0 })
    }

    fn longest(&self, _: Document<'_>, start: u32, key: u64, limits: RowLimits) -> Option<u32> {
        let marks = if self.cuts(KeyedRandom::of(key, start)) { 3 } else { 0 };
        Some(limits.tokens.saturating_sub(marks))
    }

    fn learns(&self, part: RowPart<'_>) -> bool {
        part.length > 1
    }

    fn make(&self, part: RowPart<'_>, key: u64, columns: &mut [ColumnValues]) -> u64 {
        let [inputs, labels] = columns else { unreachable!("two columns") };
        let (chance, ids) = (KeyedRandom::of(key, part.first), part.ids());
        let start = inputs.numbers.len();
        let numbers = &mut inputs.numbers;
        if self.cuts(chance) {
            // Special tokens at the ends begin and end the document, not its prefix and suffix.
            let is_special = |id: &&u32| self.special.has(**id);
            let begin = ids.iter().take_while(is_special).count();
            let end = ids.len() - ids[begin..].iter().rev().take_while(is_special).count();
            let body = &ids[begin..end];
            let [one, other] = PLACES.map(|place| chance.below(place, body.len() + 1));
            let (first, last) = (one.min(other), one.max(other));
            let append = |numbers: &mut Vec<i32>, ids: &[u32]| {
                numbers.extend(ids.iter().map(|id| id.cast_signed()));
            };
            append(numbers, &ids[..begin]);
            numbers.push(self.prefix);
            if chance.at(SWAPPED) >> 32 < self.swapped {
                numbers.push(self.suffix);
                append(numbers, &body[last..]);
                numbers.push(self.middle);
                append(numbers, &body[..first]);
            } else {
                append(numbers, &body[..first]);
                numbers.push(self.suffix);
                append(numbers, &body[last..]);
                numbers.push(self.middle);
            }
            append(numbers, &body[first..last]);
            append(numbers, &ids[end..]);
        } else {
            numbers.extend(ids.iter().map(|id| id.cast_signed()));
        }
        let row_ids = &numbers[start..];
        if self.shift {
            labels.numbers.extend_from_slice(&row_ids[1..]);
            labels.numbers.push(UNTRAINED);
        } else {
            labels.numbers.push(UNTRAINED);
            labels.numbers.extend_from_slice(&row_ids[1..]);
        }
        row_ids.len() as u64 - 1
    }
}
