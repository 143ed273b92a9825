//! [`TurnRenderers`]: renders records by every choice of `turns`, and counts the documents that each gives.

use std::collections::BTreeMap;
use std::ops::{AddAssign, Range};
use std::time::{Duration, Instant};

use fastpack_tokenize::Tokenizer;
use serde::Serialize;

use crate::config::{Eos, Source, TrainOn, Turns};
use crate::document::bos_and_eos::TextKind;
use crate::document::tokenize::DocumentMaker;
use crate::document::{Document, Documents, INPUTS};
use crate::error::Result;
use crate::pipeline::documents::per_record::bos_and_eos;
use crate::pipeline::documents::record_renderer::{ReadOptions, RecordRenderer};
use crate::pipeline::documents::rendering::source_renderer::{RenderedRecord, SourceRenderer};
use crate::pipeline::job::Job;
use crate::record::Shape;
use crate::report::ledger::Ledger;
use crate::report::timing::Clock;
use crate::source::{Block, RawRecord};
use crate::template::{Rendered, Span, Trained};
use crate::util::control::Control;

/// The number of choices of `turns`.
const CHOICES: usize = Turns::WORDS.len();

/// The choices of `turns`, each at its number.
fn all_turns() -> impl Iterator<Item = Turns> {
    Turns::WORDS.iter().map(|(_, turns)| *turns)
}

/// The documents that a choice of `turns` gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TurnChoice {
    /// Their number.
    pub documents: u64,
    /// Their tokens.
    pub tokens: u64,
    /// Their tokens with a label.
    pub trained_tokens: u64,
    /// The trained turns that they have otherwise than the model writes them, or behind another text.
    pub rewritten_turns: u64,
}

impl AddAssign for TurnChoice {
    fn add_assign(&mut self, more: Self) {
        self.documents += more.documents;
        self.tokens += more.tokens;
        self.trained_tokens += more.trained_tokens;
        self.rewritten_turns += more.rewritten_turns;
    }
}

impl TurnChoice {
    /// A document; nothing if it has no label.
    fn of(tokens: u64, trained_tokens: u64) -> Self {
        if trained_tokens == 0 {
            return Self::default();
        }
        Self { documents: 1, tokens, trained_tokens, rewritten_turns: 0 }
    }
}

/// The documents that each choice of `turns` gives.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TurnChoices {
    counts: [TurnChoice; CHOICES],
    /// True if a record is a conversation whose turns are trained.
    has_trained_turns: bool,
    /// The time that it took to count them.
    pub(crate) took: Duration,
}

impl AddAssign for TurnChoices {
    fn add_assign(&mut self, more: Self) {
        for (count, more) in self.counts.iter_mut().zip(more.counts) {
            *count += more;
        }
        self.has_trained_turns |= more.has_trained_turns;
        self.took += more.took;
    }
}

impl TurnChoices {
    /// The counts by the words of the choices; empty if there is no conversation whose turns are trained.
    pub(crate) fn report(&self) -> BTreeMap<&'static str, TurnChoice> {
        let counts = Turns::WORDS.iter().zip(self.counts).filter(|_| self.has_trained_turns);
        counts.map(|((word, _), count)| (*word, count)).collect()
    }

    /// The same documents for every choice.
    fn same_for_every_choice(count: TurnChoice) -> Self {
        Self { counts: [count; CHOICES], ..Self::default() }
    }
}

/// The renderers of a job for every choice of `turns`, one for each source.
pub(crate) struct TurnRenderers<'a> {
    job: &'a Job,
    control: &'a Control,
    /// By the number of the choice.
    renderers: Vec<Vec<SourceRenderer<'a>>>,
}

impl<'a> TurnRenderers<'a> {
    /// The renderers for `sources`; `None` if the choice of `turns` is nothing to this job.
    pub(crate) fn of(
        job: &'a Job,
        sources: &[Source],
        control: &'a Control,
    ) -> Result<Option<Self>> {
        let tokens = &job.options.tokens;
        let trains_turns = !matches!(tokens.train_on.name(), TrainOn::All | TrainOn::Completion);
        if !trains_turns
            || !tokens.documents.is_of_whole_texts()
            || job.transform.objective.is_some()
        {
            return Ok(None);
        }
        let of_choice = |turns| {
            let of_source = |source: &Source| SourceRenderer::by_turns(job, &source.reading, turns);
            sources.iter().map(of_source).collect()
        };
        let renderers = all_turns().map(of_choice).collect::<Result<_>>()?;
        Ok(Some(Self { job, control, renderers }))
    }

    /// The counter of one thread.
    pub(crate) fn counter(&self) -> TurnCounter<'_, 'a> {
        let Self { job, control, .. } = self;
        let maker = |tokenizer| DocumentMaker::new(tokenizer, bos_and_eos(job)).stopped_by(control);
        let tokens = job.tokenizer.as_ref().map_or(&[][..], Tokenizer::special_tokens);
        let ids = tokens.iter().filter(|token| !token.is_empty()).filter_map(|token| {
            let id = job.tokenizer.as_ref()?.token_to_id(token)?;
            Some((token.clone(), id))
        });
        TurnCounter {
            renderers: self,
            workers: all_turns().map(|turns| RecordRenderer::by_turns(job, turns)).collect(),
            maker: job.tokenizer.as_ref().map(maker),
            special: ids.collect(),
        }
    }
}

/// Counts the documents of records by every choice of `turns`, on one thread.
pub(crate) struct TurnCounter<'r, 'a> {
    renderers: &'r TurnRenderers<'a>,
    workers: Vec<RecordRenderer<'a>>,
    maker: Option<DocumentMaker>,
    /// The special tokens of the tokenizer, with their ids.
    special: Vec<(String, u32)>,
}

impl TurnCounter<'_, '_> {
    /// The documents of a block, with `documents` by the choice of the job.
    pub(crate) fn count(
        &mut self,
        block: &Block,
        source: &Source,
        shape: Option<&Shape>,
        documents: &Documents,
    ) -> Result<TurnChoices> {
        let started = Instant::now();
        let mut choices = TurnChoices::default();
        let mut next = 0;
        for raw in block.records() {
            self.renderers.control.tick()?;
            let first = next;
            while next < documents.len() && documents.document(next).origin().line == raw.line {
                next += 1;
            }
            let own_documents = (first..next).map(|index| documents.document(index));
            let own_documents: Vec<Document<'_>> = own_documents.collect();
            choices += self.record(raw, block, source, shape, &own_documents);
        }
        choices.took = started.elapsed();
        Ok(choices)
    }

    /// The documents of a record, with `made` by the choice of the job.
    fn record(
        &mut self,
        raw: RawRecord<'_>,
        block: &Block,
        source: &Source,
        shape: Option<&Shape>,
        own_documents: &[Document<'_>],
    ) -> TurnChoices {
        let mut own = TurnChoice::default();
        for document in own_documents {
            own += counted(*document);
        }
        if !shape.is_some_and(Shape::is_dialogue) || self.maker.is_none() {
            return TurnChoices::same_for_every_choice(own);
        }
        let mut texts = Vec::with_capacity(CHOICES);
        for (worker, renderers) in self.workers.iter_mut().zip(&self.renderers.renderers) {
            let renderer = &renderers[block.source];
            let options = ReadOptions {
                renderer,
                reading: &source.reading,
                shape,
                path: Some(&block.path),
                hashes: false,
                side: None,
            };
            match worker.render_record(raw.raw, options, &mut Clock::start()) {
                Ok(RenderedRecord::Texts(found)) => texts.push(found),
                Ok(_) => return TurnChoices::same_for_every_choice(own),
                Err(_) => texts.push(Vec::new()),
            }
        }
        let chosen = self.renderers.job.options.tokens.turns as usize;
        let counts = texts.iter().enumerate().map(|(choice, found)| {
            if choice == chosen || *found == texts[chosen] {
                return own;
            }
            self.texts(found, &texts[chosen], own_documents, raw.line)
        });
        let counts: Vec<TurnChoice> = counts.collect();
        let mut choices = TurnChoices { has_trained_turns: true, ..TurnChoices::default() };
        choices.counts.copy_from_slice(&counts);
        let whole = texts[Turns::Auto as usize].last().and_then(|last| last.whole);
        choices.counts[Turns::Whole as usize].rewritten_turns =
            whole.map_or(0, |whole| whole.rewritten_turns);
        choices
    }

    /// The documents of some texts of a record, with `made` from `own` by the choice of the job.
    fn texts(
        &mut self,
        texts: &[Rendered],
        own: &[Rendered],
        own_documents: &[Document<'_>],
        line: u64,
    ) -> TurnChoice {
        let mut count = TurnChoice::default();
        for text in texts {
            let known = match (own, own_documents) {
                ([own], [document]) => self.known_by_own(text, own, *document),
                _ => None,
            };
            match known.or_else(|| self.encoded(text, own_documents, line)) {
                Some(known) => count += known,
                // As for the choice of the job, the texts behind one that has no document have none.
                None => break,
            }
        }
        count
    }

    /// A document of a text, which is tokenized; `None` if that is refused.
    fn encoded(
        &mut self,
        text: &Rendered,
        own_documents: &[Document<'_>],
        line: u64,
    ) -> Option<TurnChoice> {
        let path = own_documents.first().map(|document| document.origin().path);
        let path = path.unwrap_or_else(|| std::path::Path::new("").into());
        let mut documents = Documents::new(path, &[INPUTS]);
        let maker = self.maker.as_mut()?;
        let kind = TextKind::Conversation;
        maker.make(text, kind, line, &mut documents, &mut Ledger::default()).ok()?;
        let mut count = TurnChoice::default();
        documents.iter().for_each(|document| count += counted(document));
        Some(count)
    }

    /// The document of a text that `own` begins with, by the tokens of the `document` of `own`; `None` if these do not
    /// tell. A special token is found wherever a text has it, so the tokens of a text that ends with one are those up to
    /// it of a longer text.
    fn known_by_own(
        &self,
        text: &Rendered,
        own: &Rendered,
        document: Document<'_>,
    ) -> Option<TurnChoice> {
        let (Trained::Spans(spans), Trained::Spans(all)) = (&text.trained, &own.trained) else {
            return None;
        };
        let place = stretch_of(spans, all)?;
        let ids = document.column(INPUTS);
        let runs = document.trained();
        if runs.len() != all.len() {
            return None;
        }
        let tokens =
            if text.text == own.text { ids.len() } else { self.tokens_of(text, own, ids)? };
        let labels =
            runs[place].iter().map(|run| u64::from(run.end - run.start.max(1).min(run.end)));
        Some(TurnChoice::of(tokens as u64, labels.sum()))
    }

    /// The number of the tokens of a text that `own`, of the tokens `ids`, begins with.
    fn tokens_of(&self, text: &Rendered, own: &Rendered, ids: &[u32]) -> Option<usize> {
        if text.end_untrained || self.renderers.job.options.tokens.eos == Eos::Always {
            return None;
        }
        let rest = own.text.strip_prefix(text.text.as_str())?;
        let ends = self.special.iter().filter(|(token, _)| text.text.ends_with(token.as_str()));
        let (token, id) = ends.max_by_key(|(token, _)| token.len())?;
        let before = text.text.matches(token.as_str()).count();
        let places = ids.iter().enumerate().filter(|(_, it)| *it == id).map(|(at, _)| at);
        if places.clone().count() != before + rest.matches(token.as_str()).count() {
            return None;
        }
        places.clone().nth(before - 1).map(|at| at + 1)
    }
}

/// A document that was made.
fn counted(document: Document<'_>) -> TurnChoice {
    let length = document.column(INPUTS).len();
    let tokens = u32::try_from(length).expect("documents are made of fewer tokens");
    TurnChoice::of(u64::from(tokens), document.labels(0, tokens))
}

/// The place of `spans` among `all`.
fn stretch_of(spans: &[Span], all: &[Span]) -> Option<Range<usize>> {
    let first = spans.first()?;
    let begin = all.iter().position(|span| span == first)?;
    let place = begin..begin + spans.len();
    (all.get(place.clone()) == Some(spans)).then_some(place)
}
