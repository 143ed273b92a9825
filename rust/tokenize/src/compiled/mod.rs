//! The compiled engines: a tokenizer that is recognised as a whole, without the Hugging Face crate on the way.

mod batch;
mod bert;
mod bpe;
mod byte_level;
mod compose;
mod cuts;
mod edges;
mod file;
mod memory;
mod models;
mod names;
mod normalize;
mod patterns;
mod recognise;
mod sentence;
mod spans;
mod template;
mod words;

use std::fmt;
use std::ops::Range;

use crate::added::Matcher;
use crate::tokenizer::{Encoding, SpecialTokens};
use batch::{Origin, Output};
use byte_level::ByteLevel;
pub(crate) use file::{File, Written};
pub(crate) use memory::Memory;
pub(crate) use names::Names;
use normalize::Normalizer;
pub(crate) use recognise::{Description, recognise};
use sentence::Sentence;
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
    /// Appends the ids of `text` and what the spans touch, as [`crate::Encoder::encode`] says.
    pub(crate) fn encode(
        &self,
        text: &str,
        spans: &[Range<usize>],
        special: SpecialTokens,
        memory: &mut Memory,
        out: &mut Encoding,
    ) {
        let start = out.ids.len();
        let mut watch = match self.model {
            _ if spans.is_empty() => Watch::Nothing,
            Model::ByteLevel(_) | Model::Sentence(_) => Watch::new(text, spans),
            // Words leave out what stands between them.
            Model::Words(_) => Watch::all(false),
        };
        if !self.ids(text, special, memory, &mut out.ids, &mut watch) {
            out.ids.truncate(start);
            watch = Watch::all(true);
            self.ids(text, special, memory, &mut out.ids, &mut watch);
        }
        watch.finish(text, spans, out.ids.len(), &mut out.touched);
    }

    /// What an added token that matches the normalized text matches there.
    pub(crate) fn normalized(&self, content: &str) -> String {
        self.normalizer
            .map_or_else(|| content.to_owned(), |normalizer| normalizer.normalized(content))
    }

    /// Appends the ids of `text`; `false` if it must be done again with a watch on all sources.
    fn ids(
        &self,
        text: &str,
        special: SpecialTokens,
        memory: &mut Memory,
        ids: &mut Vec<u32>,
        watch: &mut Watch,
    ) -> bool {
        if special == SpecialTokens::Add {
            ids.extend_from_slice(self.template.before());
        }
        let mut from = 0;
        let mut done = true;
        if !self.raw.is_empty() {
            for found in self.raw.matches(text) {
                done &= self.gap(text, from..found.range.start, memory, ids, watch);
                from = found.range.end;
                watch.token(ids.len(), found.range);
                ids.push(found.id);
            }
        }
        done &= self.gap(text, from..text.len(), memory, ids, watch);
        if special == SpecialTokens::Add {
            ids.extend_from_slice(self.template.after());
        }
        done
    }

    /// Appends the ids of what stands between two added tokens: it is normalized and searched again.
    fn gap(
        &self,
        text: &str,
        gap: Range<usize>,
        memory: &mut Memory,
        ids: &mut Vec<u32>,
        watch: &mut Watch,
    ) -> bool {
        if gap.is_empty() {
            return true;
        }
        let normalized = self.normalizer.and_then(|normalizer| {
            normalizer.normalize(&text[gap.clone()], gap.start, watch.wants_sources())
        });
        match &normalized {
            None => {
                let origin = Origin { sources: None };
                self.normalized_gap(&text[..gap.end], gap.start, origin, memory, ids, watch);
                true
            }
            Some(_) if watch.next() != usize::MAX && !watch.wants_sources() => false,
            Some(normalized) => {
                let origin = Origin {
                    sources: watch.wants_sources().then_some(normalized.sources.as_slice()),
                };
                self.normalized_gap(&normalized.text, 0, origin, memory, ids, watch);
                true
            }
        }
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
