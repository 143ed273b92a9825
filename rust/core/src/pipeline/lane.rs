//! [`Lane`]: one thread's way from a record to what is tokenized.
//!
//! Records that need no more than their texts take a short way, in memory that is kept from record to record: a text
//! is read straight into what is tokenized, a conversation is skimmed. All others are read as [`read`] reads them.
//! Whatever the chat template renders is replayed where that can be, and put into words by the [`Renderer`] else; all
//! ways give the same.

use super::recognise::expectation;
use super::render::{Failure, Made, Renderer};
use super::{Job, JobTemplate};
use crate::config::{Options, Reading, ShapeName, TrainOn};
use crate::document::tokenize::Kind;
use crate::record::{Conversation, Record, Shape, Skim, Takes, read, skim_text};
use crate::source::Raw;
use crate::template::{ChatTemplate, Rendered, Replayed, Replayer, Trained, Wanted};
use crate::timing::{Clock, RenderCounts, Stage};

/// Bytes of a text that are kept for the next: a record of a GiB does not stay in memory.
const KEPT: usize = 1 << 22;

/// One thread's way from records to what is tokenized.
pub(super) struct Lane<'a> {
    /// Whether texts go the short way.
    texts: bool,
    /// What conversations go through on the short way.
    replayer: Option<Replayer<'a>>,
    skim: Skim,
    replayed: Replayed,
    /// What the last record became, whose memory is used again.
    rendered: Rendered,
    /// Which way conversations went.
    counts: RenderCounts,
}

/// What is wanted of a conversation that says nothing else of itself.
pub(super) fn wanted(options: &Options) -> Wanted {
    match options.tokens.train_on {
        _ if options.tokens.train_on_eos.is_some() => Wanted::Turns,
        TrainOn::All if options.rows.trims() => Wanted::Spans,
        TrainOn::All => Wanted::Text,
        TrainOn::LastAssistant => Wanted::LastTurn,
        TrainOn::Auto | TrainOn::Assistant | TrainOn::Completion => Wanted::Spans,
    }
}

/// How the records of a block are looked at.
#[derive(Clone, Copy)]
pub(super) struct Asked<'r, 'a> {
    pub(super) words: &'r Renderer<'a>,
    pub(super) reading: &'r Reading,
    /// The shape of the file, if that is known.
    pub(super) shape: Option<&'r Shape>,
}

impl<'a> Lane<'a> {
    pub(super) fn new(job: &'a Job) -> Self {
        let options = &job.options;
        let texts = matches!(options.tokens.train_on, TrainOn::Auto | TrainOn::All);
        let template = match &job.template {
            JobTemplate::Ready(template) => Some(&**template),
            JobTemplate::Refused(_) => None,
        };
        let cuts = options.rows.trims();
        Self {
            texts: texts && options.tokens.train_on_eos.is_none(),
            replayer: template.map(|template| Replayer::new(template, wanted(options), cuts)),
            skim: Skim::taking(template.map_or(Takes::ALL, ChatTemplate::takes)),
            replayed: Replayed::default(),
            rendered: Rendered::default(),
            counts: RenderCounts::default(),
        }
    }

    /// Reads a record and puts it into words.
    pub(super) fn put(
        &mut self,
        raw: Raw<'_>,
        asked: Asked<'_, 'a>,
        clock: &mut Clock,
    ) -> Result<Made, Failure<'a>> {
        self.rendered.turn_ends.clear();
        self.rendered.literals.clear();
        let Asked { words, reading, shape } = asked;
        let general = || {
            let record = read(raw, shape, expectation(reading), words.takes());
            record.and_then(|record| words.as_rendered(record))
        };
        let skimmed = match (raw, shape) {
            (Raw::Row { batch, row }, Some(shape)) => {
                let done = self.replays() && self.skim.row(batch, row, shape);
                done.then_some(Kind::Conversation)
            }
            (Raw::Json(line), Some(shape)) => match shape.name() {
                ShapeName::Text if self.texts => {
                    let text = &mut self.rendered.text;
                    text.clear();
                    skim_text(line, shape, text).then_some(Kind::Text)
                }
                ShapeName::Conversations if self.replays() => {
                    self.skim.read(line, shape).then_some(Kind::Conversation)
                }
                _ => None,
            },
            _ => None,
        };
        clock.lap(Stage::Parse);
        if skimmed == Some(Kind::Text) {
            self.rendered.trained = Trained::All;
            return Ok(Made::Text(std::mem::take(&mut self.rendered), Kind::Text));
        }
        if skimmed.is_some() {
            let conversation = || match general() {
                Ok(Record::Conversation(conversation)) => Some(conversation),
                _ => None,
            };
            let made = self.replay(words, conversation);
            clock.lap(Stage::Render);
            if let Some(made) = made {
                return made;
            }
        }
        let record = general();
        clock.lap(Stage::Parse);
        let record = record?;
        let made = match &record {
            Record::Conversation(conversation) if skimmed.is_none() && self.takes(conversation) => {
                self.replay(words, || Some(conversation.clone()))
            }
            _ => None,
        };
        let made = made.unwrap_or_else(|| {
            let is_conversation = matches!(record, Record::Conversation(_));
            let made = words.render(record);
            self.counts.interpreted += u64::from(is_conversation && made.is_ok());
            made
        });
        clock.lap(Stage::Render);
        made
    }

    /// Whether a conversation that was read can be looked up among those that were rendered.
    fn takes(&mut self, conversation: &Conversation) -> bool {
        self.replays() && self.skim.take(conversation)
    }

    /// Whether conversations may be replayed.
    fn replays(&self) -> bool {
        self.replayer.as_ref().is_some_and(|replayer| !replayer.gave_up())
    }

    /// What a program makes of the conversation that was skimmed; nothing where the interpreter has to render it.
    fn replay(
        &mut self,
        words: &Renderer<'a>,
        read: impl FnOnce() -> Option<Conversation>,
    ) -> Option<Result<Made, Failure<'a>>> {
        if self.skim.prompt().is_none() && !words.takes_unprompted() {
            return None;
        }
        let replayer = self.replayer.as_mut().filter(|replayer| replayer.is_tried(&self.skim))?;
        let Rendered { text, literals, .. } = &mut self.rendered;
        self.replayed.printed.text = std::mem::take(text);
        self.replayed.printed.literals = std::mem::take(literals);
        let done = replayer.render(&self.skim, read, &mut self.replayed);
        let made = done.then(|| words.replayed(&mut self.replayed, &self.skim));
        self.counts.compiled += u64::from(matches!(made, Some(Ok(_))));
        made
    }

    /// Which way the conversations went since this was asked last.
    pub(super) fn take_rendered(&mut self) -> RenderCounts {
        std::mem::take(&mut self.counts)
    }

    /// Takes back what is tokenized, for its memory.
    pub(super) fn give_back(&mut self, rendered: Rendered) {
        if rendered.text.capacity() <= KEPT {
            self.rendered = rendered;
        }
    }
}
