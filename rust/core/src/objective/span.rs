//! [`Span`]: spans of tokens are replaced by sentinels, and predicted by a decoder, as T5 was trained.

use super::kind::{
    ColumnValues, Objective, ObjectiveColumn, ObjectiveVocabulary, PaddingValues, PartSize,
    RowLimits, RowPart, UNTRAINED,
};
use crate::config::{ColumnUnit, Noise, NumberType, RowColumn, SpanOptions};
use crate::document::{Document, INPUTS};
use crate::error::{Error, Result};
use crate::util::random::KeyedRandom;

/// The number that decides which way of drawing spans a piece takes.
const WAY: u64 = u64::MAX;

/// Spans of tokens are replaced by sentinels, and predicted by a decoder.
///
/// The encoder reads the tokens that stay, with a sentinel in place of each span; the targets are each sentinel with
/// the tokens that it stands for. Both end with the end-of-text token.
#[derive(Debug)]
pub(super) struct Span {
    mixture: Vec<Noise>,
    /// The sentinels, in the order of their use.
    sentinels: Vec<i32>,
    eos_id: u32,
}

/// A stretch of tokens that stay, and the span after it.
struct SpanPair {
    kept: u32,
    noise: u32,
}

impl Span {
    /// The objective with the tokens of a tokenizer.
    ///
    /// Fails with [`Error::Option`] if there is no tokenizer, or one without sentinels or an end-of-text token.
    pub(super) fn new(options: &SpanOptions, vocabulary: ObjectiveVocabulary<'_>) -> Result<Self> {
        let refuse = |reason: &'static str| Error::option("objective", reason);
        let Some(tokenizer) = vocabulary.tokenizer else {
            return Err(refuse(
                "is \"span\", which needs the tokenizer of the ids: its sentinels `<extra_id_0>`, `<extra_id_1>` and so on",
            ));
        };
        let id = |number: usize| tokenizer.token_to_id(&format!("<extra_id_{number}>"));
        let sentinels: Vec<i32> = (0..).map_while(id).map(u32::cast_signed).collect();
        if sentinels.is_empty() {
            return Err(refuse(
                "is \"span\", but the tokenizer has no `<extra_id_0>`, which stands for the first span; use the tokenizer of an encoder and decoder such as T5",
            ));
        }
        let eos = vocabulary.named.iter().find(|(name, _)| name == "eos_token");
        let Some(eos_id) = eos.and_then(|(_, content)| tokenizer.token_to_id(content)) else {
            return Err(refuse(
                "is \"span\", but the tokenizer names no `eos_token`, which ends inputs and targets",
            ));
        };
        Ok(Self { mixture: options.mixture.clone(), sentinels, eos_id })
    }

    /// The way in which the spans of a piece are drawn.
    fn way(&self, chance: KeyedRandom) -> Noise {
        match self.mixture[..] {
            [only] => only,
            _ => self.mixture[chance.below(WAY, self.mixture.len())],
        }
    }

    /// The tokens of a part without the end-of-text token at its end.
    fn body<'a>(&self, part: &RowPart<'a>) -> &'a [u32] {
        match part.ids() {
            [body @ .., last] if *last == self.eos_id => body,
            body => body,
        }
    }

    /// The number of spans that a part of `length` tokens has, and of the tokens in them.
    fn noise(&self, length: u32, way: Noise, chance: KeyedRandom) -> (u32, u32) {
        match way {
            Noise::Density { density, length: mean } => {
                let noise = rounded(f64::from(length) * density.get()).clamp(1, length - 1);
                let spans = rounded(f64::from(noise) / mean.get()).max(1);
                (spans.min(noise).min(length - noise), noise)
            }
            Noise::Gaps { .. } => {
                let pairs = self.pairs(length, way, chance);
                let spans = pairs.iter().filter(|pair| pair.noise > 0).count();
                (small(spans), pairs.iter().map(|pair| pair.noise).sum())
            }
        }
    }

    /// The tokens of a part of `length` tokens in its row, without the end of the text; `None` where there are not
    /// enough sentinels.
    fn size_of(&self, length: u32, way: Noise, chance: KeyedRandom) -> Option<PartSize> {
        let (spans, noise) = self.noise(length, way, chance);
        let fits = spans as usize <= self.sentinels.len();
        fits.then_some(PartSize { tokens: length - noise + spans + 1, targets: noise + spans + 1 })
    }

    /// The stretches and spans of a part of `length` tokens.
    fn pairs(&self, length: u32, way: Noise, chance: KeyedRandom) -> Vec<SpanPair> {
        match way {
            Noise::Density { .. } => {
                let (spans, noise) = self.noise(length, way, chance);
                let kept = segments(length - noise, spans, chance, 0);
                let noise = segments(noise, spans, chance, 1 << 40);
                kept.into_iter().zip(noise).map(|(kept, noise)| SpanPair { kept, noise }).collect()
            }
            Noise::Gaps { gap, length: mean } => {
                let (mut pairs, mut left, mut number) = (Vec::new(), length, 0);
                while left > 0 {
                    let kept = chance.around(gap.get(), number).min(left);
                    let noise = chance.around(mean.get(), number + 1).max(1).min(left - kept);
                    pairs.push(SpanPair { kept, noise });
                    left -= kept + noise;
                    number += 2;
                }
                pairs
            }
        }
    }

    /// True if a part of `length` tokens fits into a row.
    fn fits(&self, length: u32, way: Noise, chance: KeyedRandom, limits: RowLimits) -> bool {
        length < 2
            || self
                .size_of(length, way, chance)
                .is_some_and(|size| size.tokens <= limits.tokens && size.targets <= limits.targets)
    }
}

impl Objective for Span {
    fn columns(&self) -> Vec<ObjectiveColumn> {
        let column =
            |name, per, fill| ObjectiveColumn { name, number: NumberType::Int32, per, fill };
        vec![
            column(RowColumn::InputIds, ColumnUnit::Token, PaddingValues::Padding),
            column(RowColumn::Labels, ColumnUnit::Target, PaddingValues::With(UNTRAINED)),
        ]
    }

    fn is_random(&self) -> bool {
        true
    }

    fn size(&self, part: RowPart<'_>, key: u64) -> Option<PartSize> {
        let chance = KeyedRandom::of(key, part.first);
        let length = small(self.body(&part).len());
        if length < 2 {
            return None;
        }
        self.size_of(length, self.way(chance), chance)
    }

    fn longest(
        &self,
        document: Document<'_>,
        start: u32,
        key: u64,
        limits: RowLimits,
    ) -> Option<u32> {
        let ids = &document.column(INPUTS)[start as usize..];
        let chance = KeyedRandom::of(key, start);
        let way = self.way(chance);
        let ends = ids.last() == Some(&self.eos_id);
        let (rest, body) = (small(ids.len()), small(ids.len() - usize::from(ends)));
        // A token that stays counts once, and a span of any length counts as one sentinel: a part is at most as long
        // as both limits and the least share of tokens that stay allow. Sizes grow with the length, so the longest is
        // searched.
        if self.fits(body, way, chance, limits) {
            return Some(rest);
        }
        let (mut fitting, mut too_long) = (1, body);
        while too_long - fitting > 1 {
            let middle = fitting + (too_long - fitting) / 2;
            if self.fits(middle, way, chance, limits) {
                fitting = middle;
            } else {
                too_long = middle;
            }
        }
        Some(fitting)
    }

    fn learns(&self, part: RowPart<'_>) -> bool {
        self.body(&part).len() >= 2
    }

    fn make(&self, part: RowPart<'_>, key: u64, columns: &mut [ColumnValues]) -> u64 {
        let [inputs, targets] = columns else { unreachable!("two columns") };
        let chance = KeyedRandom::of(key, part.first);
        let mut rest = self.body(&part);
        let before = targets.numbers.len();
        let pairs = self.pairs(small(rest.len()), self.way(chance), chance);
        let mut sentinels = self.sentinels.iter();
        for SpanPair { kept, noise } in pairs {
            let (stays, after) = rest.split_at(kept as usize);
            let (span, after) = after.split_at(noise as usize);
            rest = after;
            inputs.numbers.extend(stays.iter().map(|id| id.cast_signed()));
            if !span.is_empty() {
                let sentinel = *sentinels.next().expect("pieces have as many spans as sentinels");
                inputs.numbers.push(sentinel);
                targets.numbers.push(sentinel);
                targets.numbers.extend(span.iter().map(|id| id.cast_signed()));
            }
        }
        inputs.numbers.push(self.eos_id.cast_signed());
        targets.numbers.push(self.eos_id.cast_signed());
        (targets.numbers.len() - before) as u64
    }
}

/// Cuts `items` into `parts` of at least one item each. All ways to do so are equally likely.
fn segments(items: u32, parts: u32, chance: KeyedRandom, first: u64) -> Vec<u32> {
    let mut lengths = Vec::with_capacity(parts as usize);
    let (mut begin, mut cuts) = (0, parts - 1);
    for place in 1..items {
        // Of the places that are left, as many are drawn as cuts are left (Knuth, algorithm S).
        let left = (items - place) as usize;
        if cuts > 0 && chance.below(first + u64::from(place), left) < cuts as usize {
            lengths.push(place - begin);
            begin = place;
            cuts -= 1;
        }
    }
    lengths.push(items - begin);
    lengths
}

/// The nearest whole number; of two, the even one, as in `NumPy`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "lengths of documents are 32-bit"
)]
fn rounded(number: f64) -> u32 {
    number.round_ties_even() as u32
}

fn small(length: usize) -> u32 {
    u32::try_from(length).expect("lengths of documents are 32-bit")
}
