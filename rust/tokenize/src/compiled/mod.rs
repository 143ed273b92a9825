//! The compiled engines: a tokenizer that is recognised as a whole, without the Hugging Face crate on the way.

mod batch;
mod bert;
mod bpe;
mod byte_level;
mod compose;
mod cuts;
mod edges;
mod file;
mod gaps;
mod memory;
mod models;
mod names;
mod normalize;
mod patterns;
mod recognise;
mod sentence;
mod settled;
mod spans;
mod template;
mod words;

use std::fmt;
use std::ops::Range;

use crate::added::Matcher;
use crate::tokenizer::{Encoding, SpecialTokens};
use batch::{Origin, Output};
use byte_level::ByteLevel;
use compose::Composer;
pub(crate) use file::{File, Written};
pub(crate) use memory::Memory;
pub(crate) use names::Names;
use normalize::Normalizer;
pub(crate) use recognise::{Description, recognise};
use sentence::Sentence;
pub use settled::Settled;
use spans::Watch;
use template::Template;
use words::Words;

/// What makes the ids of a stretch between added tokens.
enum Model {
    ByteLevel(ByteLevel),
    Sentence(Sentence),
    Words(Words),
}

/// A recognised tokenizer, shared by all threads.
pub(crate) struct Compiled {
    /// The tokens that match the text as it is.
    raw: Matcher,
    /// The tokens that match the normalized text.
    normalized: Matcher,
    /// What is done to whole texts; a model of words normalizes its pieces where it can.
    normalizer: Option<Normalizer>,
    model: Model,
    template: Template,
}

impl Compiled {
    /// Appends the ids of `text` and what the spans touch, as [`crate::Encoder::encode_around`] says.
    pub(crate) fn encode<'s>(
        &self,
        text: &str,
        settled: impl Iterator<Item = (usize, &'s Settled)> + Clone,
        spans: &[Range<usize>],
        special: SpecialTokens,
        memory: &mut Memory,
        out: &mut Encoding,
    ) {
        let mut watch = match self.model {
            _ if spans.is_empty() => Watch::Nothing,
            // Each text of theirs is normalized as a whole.
            Model::Words(_) if self.normalizer.is_some() => Watch::all(false),
            _ => Watch::new(text, spans),
        };
        if special == SpecialTokens::Add {
            out.ids.extend_from_slice(self.template.before());
        }
        let begin = out.ids.len();
        self.ids(text, settled.clone(), memory, &mut out.ids, &mut watch);
        if watch.is_lost() {
            out.ids.truncate(begin);
            watch = Watch::all(!matches!(self.model, Model::Words(_)));
            self.ids(text, settled, memory, &mut out.ids, &mut watch);
        }
        let end = out.ids.len();
        if special == SpecialTokens::Add {
            out.ids.extend_from_slice(self.template.after());
        }
        watch.finish(text, spans, end, out.ids.len(), &mut out.touched);
    }

    /// Whether normalizing can make several times as much of a text as there was.
    pub(crate) fn expands(&self) -> bool {
        self.normalizer == Some(Normalizer::Composer(Composer::Nfkc))
    }

    /// What an added token that matches the normalized text matches there.
    pub(crate) fn normalized(&self, content: &str) -> String {
        self.normalizer
            .map_or_else(|| content.to_owned(), |normalizer| normalizer.normalized(content))
    }

    /// The part of `text` whose ids are the same wherever it stands, if there is one.
    pub(crate) fn settle(&self, text: &str, memory: &mut Memory) -> Option<Settled> {
        let range = self.raw.settled(text)?;
        let (mut ids, mut watch) = (Vec::new(), Watch::all(false));
        let mut from = range.start;
        for found in self.raw.matches(text) {
            let between = &text[from..found.range.start];
            let normalizer = self.normalizer.filter(|_| !between.is_empty());
            // What has another form has sources that are found another way.
            if normalizer.is_some_and(|it| it.normalize(between, 0, false).is_some()) {
                return None;
            }
            from = found.range.end;
        }
        self.found(text, range.clone(), memory, &mut ids, &mut watch);
        Some(Settled { text: text.into(), range, ids, sources: watch.into_sources() })
    }

    /// Appends the ids of `text`.
    fn ids<'s>(
        &self,
        text: &str,
        settled: impl Iterator<Item = (usize, &'s Settled)>,
        memory: &mut Memory,
        ids: &mut Vec<u32>,
        watch: &mut Watch,
    ) {
        let mut from = 0;
        for (at, part) in settled {
            let Some(range) = part.find(text, at).filter(|range| from <= range.start) else {
                continue;
            };
            self.found(text, from..range.start, memory, ids, watch);
            if watch.next() < range.end {
                watch.again(&part.sources, ids.len(), at);
            }
            ids.extend_from_slice(&part.ids);
            from = range.end;
        }
        self.found(text, from..text.len(), memory, ids, watch);
    }

    /// Appends the ids of a part of `text` in which its added tokens are found.
    fn found(
        &self,
        text: &str,
        part: Range<usize>,
        memory: &mut Memory,
        ids: &mut Vec<u32>,
        watch: &mut Watch,
    ) {
        let mut from = part.start;
        if !self.raw.is_empty() {
            for found in self.raw.matches(&text[part.clone()]) {
                let range = part.start + found.range.start..part.start + found.range.end;
                self.gap(text, from..range.start, memory, ids, watch);
                from = range.end;
                watch.token(ids.len(), range);
                ids.push(found.id);
            }
        }
        self.gap(text, from..part.end, memory, ids, watch);
    }

    /// Appends the ids of what stands between two added tokens: it is normalized and searched again.
    fn gap(
        &self,
        text: &str,
        gap: Range<usize>,
        memory: &mut Memory,
        ids: &mut Vec<u32>,
        watch: &mut Watch,
    ) {
        if gap.is_empty() {
            return;
        }
        let normalized = self.normalizer.and_then(|normalizer| {
            normalizer.normalize(&text[gap.clone()], gap.start, watch.wants_sources())
        });
        let Some(normalized) = normalized else {
            let origin = Origin { sources: None };
            return self.normalized_gap(&text[..gap.end], gap.start, origin, memory, ids, watch);
        };
        let known = watch.wants_sources();
        if !known {
            watch.lose();
        }
        if watch.is_lost() {
            return;
        }
        let origin = Origin { sources: known.then_some(normalized.sources.as_slice()) };
        self.normalized_gap(&normalized.text, 0, origin, memory, ids, watch);
    }

    /// Appends the ids of `text[start..]`, which is normalized.
    fn normalized_gap(
        &self,
        text: &str,
        start: usize,
        origin: Origin<'_>,
        memory: &mut Memory,
        ids: &mut Vec<u32>,
        watch: &mut Watch,
    ) {
        let mut from = start;
        if !self.normalized.is_empty() {
            for found in self.normalized.matches(&text[start..]) {
                let range = start + found.range.start..start + found.range.end;
                self.stretch(text, from..range.start, origin, memory, ids, watch);
                from = range.end;
                watch.token(ids.len(), origin.of(range.start, range.end));
                ids.push(found.id);
            }
        }
        self.stretch(text, from..text.len(), origin, memory, ids, watch);
    }

    fn stretch(
        &self,
        text: &str,
        range: Range<usize>,
        origin: Origin<'_>,
        memory: &mut Memory,
        ids: &mut Vec<u32>,
        watch: &mut Watch,
    ) {
        if range.start < range.end {
            let bytes = &text.as_bytes()[..range.end];
            let mut out = Output { ids, watch, origin };
            match &self.model {
                Model::ByteLevel(model) => {
                    batch::encode(model, bytes, range.start, memory, &mut out);
                }
                Model::Sentence(model) => model.encode(bytes, range.start, memory, &mut out),
                Model::Words(model) => {
                    batch::encode(model, bytes, range.start, memory, &mut out);
                }
            }
        }
    }
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled").finish_non_exhaustive()
    }
}
