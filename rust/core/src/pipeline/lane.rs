//! [`Lane`]: one thread's way from a record to what is tokenized.
//!
//! Records that need no more than their texts take a short way, in memory that is kept from record to record: a text
//! is read straight into what is tokenized, a conversation is replayed. All others are read as [`read`] reads them, and
//! put into words by the [`Renderer`]; both ways give the same.

use super::recognise::expectation;
use super::render::{Failure, Made, Renderer};
use super::{Job, JobTemplate};
use crate::config::{Options, Overlong, Reading, ShapeName, TrainOn};
use crate::document::tokenize::Kind;
use crate::record::{Record, Shape, Skim, read, skim_text};
use crate::source::Raw;
use crate::template::{ChatTemplate, Rendered, Replayed, Replayer, Trained, Wanted};
use crate::timing::{Clock, Stage};

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
        let texts = matches!(options.train_on, TrainOn::Auto | TrainOn::All);
        let template = match &job.template {
            JobTemplate::Ready(template) => Some(&**template),
            JobTemplate::Refused(_) => None,
        };
        let template = template.filter(|template| road(template, options).is_ok());
        let wanted = match options.train_on {
            _ if options.train_on_eos.is_some() => Wanted::Turns,
            TrainOn::All => Wanted::Text,
            TrainOn::LastAssistant => Wanted::LastTurn,
            TrainOn::Auto | TrainOn::Assistant | TrainOn::Completion => Wanted::Spans,
        };
        let cuts = options.packing.overlong == Some(Overlong::Trim);
        Self {
            texts: texts && options.train_on_eos.is_none(),
            replayer: template.map(|template| Replayer::new(template, wanted, cuts)),
            skim: Skim::default(),
            replayed: Replayed::default(),
            rendered: Rendered::default(),
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
        let Asked { words, reading, shape } = asked;
        let general = || read(raw, shape, expectation(reading), words.calls());
        let skimmed = match (raw, shape) {
            (Raw::Json(line), Some(shape)) => match shape.name() {
                ShapeName::Text if self.texts => {
                    let text = &mut self.rendered.text;
                    text.clear();
                    skim_text(line, shape, text).then_some(Kind::Text)
                }
                ShapeName::Conversations if self.replayer.is_some() => {
                    self.skim.read(line, shape).then_some(Kind::Conversation)
                }
                _ => None,
            },
            _ => None,
        };
        clock.lap(Stage::Parse);
        match (skimmed, &mut self.replayer) {
            (Some(Kind::Conversation), Some(replayer)) => {
                let conversation = || match general() {
                    Ok(Record::Conversation(conversation)) => Some(conversation),
                    _ => None,
                };
                self.replayed.text = std::mem::take(&mut self.rendered.text);
                let done = replayer.render(&self.skim, conversation, &mut self.replayed);
                let made = done.then(|| words.replayed(&mut self.replayed, &self.skim));
                clock.lap(Stage::Render);
                if let Some(made) = made {
                    return made;
                }
            }
            (Some(kind), _) => {
                self.rendered.trained = Trained::All;
                return Ok(Made::Text(std::mem::take(&mut self.rendered), kind));
            }
            (None, _) => {}
        }
        let record = general();
        clock.lap(Stage::Parse);
        let made = words.render(record?);
        clock.lap(Stage::Render);
        made
    }

    /// Takes back what is tokenized, for its memory.
    pub(super) fn give_back(&mut self, rendered: Rendered) {
        if rendered.text.capacity() <= KEPT {
            self.rendered = rendered;
        }
    }
}

/// Whether conversations go the short way; if not, why.
pub(super) fn road<'t>(template: &'t ChatTemplate, options: &Options) -> Result<(), &'t str> {
    match options.train_on {
        TrainOn::Completion => Err("`train_on` asks for completions, which conversations have not"),
        _ => template.road(),
    }
}
