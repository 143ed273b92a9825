//! [`RecordRenderer`]: one thread's reader of records, up to the text that is tokenized.
//!
//! Records that consist of texts only take a fast path, in memory that is reused: a text is read straight
//! into the tokenizer's input, and a conversation is read by [`ReplayReader`]. All other records are read by
//! [`read_with_facts`]. Where possible, a recorded program replays the chat template; otherwise the [`SourceRenderer`]
//! renders. All paths give the same text.

use std::path::Path;

use crate::config::{Reading, ShapeName, Turns};
use crate::document::SeveralTexts;
use crate::document::bos_and_eos::TextKind;
use crate::pipeline::documents::rendering::record_failure::RecordFailure;
use crate::pipeline::documents::rendering::source_renderer::{RenderedRecord, SourceRenderer};
use crate::pipeline::documents::rendering::train_on::TrainedPart;
use crate::pipeline::documents::shape_recogniser::expectation;
use crate::pipeline::documents::validation_split::SplitSide;
use crate::pipeline::job::{Job, JobTemplate};
use crate::record::{
    self, Conversation, ReadFacts, Record, ReplayReader, Shape, read_text_fast, read_with_facts,
};
use crate::report::ledger::{Note, NoteSet};
use crate::report::timing::{Clock, RenderCounts, Stage};
use crate::source::RawContent;
use crate::template::{Rendered, Replayed, Replayer, Trained};

/// The most bytes of a text buffer that are kept: a record of a GiB does not stay in memory.
const KEPT: usize = 1 << 22;

/// Reads the records of one thread up to the text that is tokenized, with reused buffers.
pub(in crate::pipeline) struct RecordRenderer<'a> {
    /// True if texts take the fast path.
    texts: bool,
    /// The replayer of conversations, on the fast path.
    replayer: Option<Replayer<'a>>,
    reader: ReplayReader,
    replayed: Replayed,
    /// The result of the last record, for its memory.
    rendered: Rendered,
    /// True if the last record may have fields that its document leaves out, besides those of its messages.
    may_leave_out: bool,
    /// The hash of the fields that the shape of the last record reads, if it was asked for and the record could be read.
    content: Option<u64>,
    /// The numbers of conversations that were replayed and interpreted.
    counts: RenderCounts,
}

/// The options by which the records of a block are read.
#[derive(Clone, Copy)]
pub(in crate::pipeline) struct ReadOptions<'r, 'a> {
    pub(in crate::pipeline) renderer: &'r SourceRenderer<'a>,
    pub(in crate::pipeline) reading: &'r Reading,
    /// The shape of the file, if known.
    pub(in crate::pipeline) shape: Option<&'r Shape>,
    /// The file of the records, if they are not in memory.
    pub(in crate::pipeline) path: Option<&'r Path>,
    /// True if the content of records is hashed.
    pub(in crate::pipeline) hashes: bool,
    /// The split whose records alone are taken; all are by default.
    pub(in crate::pipeline) side: Option<SplitSide>,
}

impl<'a> RecordRenderer<'a> {
    pub(in crate::pipeline) fn new(job: &'a Job) -> Self {
        Self::by_turns(job, job.options.tokens.turns)
    }

    /// A worker with another choice of the documents of a conversation.
    pub(super) fn by_turns(job: &'a Job, turns: Turns) -> Self {
        let trained_part = TrainedPart::by_turns(&job.options, turns);
        let template = match &job.template {
            JobTemplate::Ready(template) => Some(&**template),
            JobTemplate::Refused(_) => None,
        };
        Self {
            texts: trained_part.takes_whole_texts(),
            // A program writes no pictures.
            replayer: template
                .filter(|_| trained_part.replays() && job.options.tokens.images.is_none())
                .map(|template| {
                    let (wanted, turns) = (trained_part.wanted(), trained_part.turns());
                    let replayer = Replayer::new(template, wanted, turns, trained_part.cuts());
                    replayer.noting(trained_part.note_options())
                }),
            reader: ReplayReader::default(),
            replayed: Replayed::default(),
            rendered: Rendered::default(),
            may_leave_out: true,
            content: None,
            counts: RenderCounts::default(),
        }
    }

    /// Reads a record and renders it, and finds the fields that its document leaves out.
    pub(in crate::pipeline) fn render_record(
        &mut self,
        raw: RawContent<'_>,
        options: ReadOptions<'_, 'a>,
        clock: &mut Clock,
    ) -> Result<RenderedRecord, RecordFailure<'a>> {
        self.may_leave_out = true;
        self.content = None;
        let mut output = self.read_and_render(raw, options, clock)?;
        let Some(shape) = options.shape.filter(|_| self.may_leave_out) else { return Ok(output) };
        let takes = options.renderer.takes();
        let reads = |name: &str| options.renderer.reads_variable(name);
        match &mut output {
            RenderedRecord::Text(Rendered { text, unread, .. }, _) => {
                let holds = |words: &str| is_in(words, text);
                unread.extend(record::left_out(raw, shape, takes, holds, reads));
            }
            RenderedRecord::Texts(texts) => {
                let holds = |words: &str| texts.iter().any(|rendered| is_in(words, &rendered.text));
                let unread = record::left_out(raw, shape, takes, holds, reads);
                if let Some(first) = texts.first_mut() {
                    first.unread.extend(unread);
                }
            }
            RenderedRecord::Several(SeveralTexts { texts, unread, .. }) => {
                let holds = |words: &str| texts.iter().any(|(text, _)| is_in(words, text));
                unread.extend(record::left_out(raw, shape, takes, holds, reads));
            }
            RenderedRecord::Tokens(..) => {}
        }
        Ok(output)
    }

    fn read_and_render(
        &mut self,
        raw: RawContent<'_>,
        options: ReadOptions<'_, 'a>,
        clock: &mut Clock,
    ) -> Result<RenderedRecord, RecordFailure<'a>> {
        self.rendered.turn_ends.clear();
        self.rendered.literals.clear();
        self.rendered.ordinary.clear();
        self.rendered.left_out.clear();
        self.rendered.unread.clear();
        self.rendered.pictures.clear();
        self.rendered.notes = NoteSet::default();
        (self.rendered.turn, self.rendered.whole) = (0, None);
        let ReadOptions { renderer, reading, shape, hashes, .. } = options;
        let facts = ReadFacts { hashes, ..ReadFacts::default() };
        facts.unread.set(true);
        let read_record = || {
            let expected = expectation(reading, renderer.kind());
            read_with_facts(raw, shape, expected, renderer.takes(), &facts)
        };
        let general = || read_record().and_then(|record| renderer.as_rendered(record));
        if !renderer.kind().is_of_whole_texts() {
            let record = read_record();
            self.may_leave_out = facts.unread.get();
            self.check_split_side(facts.content.get(), options)?;
            clock.lap(Stage::Parse);
            let output = renderer.render_other(record?);
            clock.lap(Stage::Render);
            return output;
        }
        let read_fast = match (raw, shape) {
            (RawContent::Row { batch, row }, Some(shape)) => {
                let done = self.replays() && self.reader.row(batch, row, shape);
                done.then_some(TextKind::Conversation)
            }
            (RawContent::Json(line), Some(shape)) => match shape.name() {
                ShapeName::Text if self.texts && !renderer.takes().pictures => {
                    let text = &mut self.rendered.text;
                    text.clear();
                    read_text_fast(line, shape, text).then_some(TextKind::Text)
                }
                ShapeName::Conversations if self.replays() => {
                    self.reader.read(line, shape).then_some(TextKind::Conversation)
                }
                _ => None,
            },
            _ => None,
        };
        let is_whole =
            read_fast == Some(TextKind::Conversation) && renderer.reads_whole(&self.reader);
        let read_fast = read_fast.filter(|_| !is_whole);
        if let Some(kind) = read_fast.filter(|_| hashes) {
            let content = match kind {
                TextKind::Conversation => self.reader.content(),
                TextKind::Text => record::of_text(&self.rendered.text),
            };
            self.check_split_side(Some(content), options)?;
        }
        clock.lap(Stage::Parse);
        self.may_leave_out = match read_fast {
            Some(TextKind::Conversation) => self.reader.has_unread(),
            Some(_) => false,
            None => true,
        };
        if read_fast == Some(TextKind::Text) {
            self.rendered.trained = Trained::All;
            return Ok(RenderedRecord::Text(std::mem::take(&mut self.rendered), TextKind::Text));
        }
        if read_fast.is_some() {
            let conversation = || match general() {
                Ok(Record::Conversation(conversation)) => Some(conversation),
                _ => None,
            };
            let output = self.replay(renderer, conversation);
            clock.lap(Stage::Render);
            if let Some(output) = output {
                return output;
            }
        }
        let record = general();
        self.may_leave_out = facts.unread.get();
        self.check_split_side(facts.content.get(), options)?;
        clock.lap(Stage::Parse);
        let record = record?;
        let output = match &record {
            Record::Conversation(conversation)
                if read_fast.is_none() && self.takes(conversation) =>
            {
                self.replay(renderer, || Some(conversation.clone()))
            }
            _ => None,
        };
        let output = output.unwrap_or_else(|| match record {
            Record::Conversation(conversation) => {
                let mut output = self.interpret(renderer, &conversation)?;
                renderer.insert_pictures(&mut output, &conversation, options.path)?;
                Ok(output)
            }
            other => renderer.render(other),
        });
        clock.lap(Stage::Render);
        output
    }

    /// Keeps the hash of the content of a record; fails for a record of the other split. The split of a record
    /// that cannot be read is unknown, so it counts with training.
    fn check_split_side(
        &mut self,
        content: Option<u64>,
        options: ReadOptions<'_, 'a>,
    ) -> Result<(), RecordFailure<'a>> {
        self.content = content;
        let is_taken = options.side.is_none_or(|side| side.takes(content));
        if is_taken { Ok(()) } else { Err(RecordFailure::OtherSplit) }
    }

    /// The hash of the fields that the shape of the last record reads; 0 if it was not asked for.
    pub(in crate::pipeline) fn content(&self) -> u64 {
        self.content.unwrap_or_default()
    }

    /// Renders a conversation that no program renders; with its lists of texts joined if the template refuses them.
    fn interpret(
        &mut self,
        renderer: &SourceRenderer<'a>,
        conversation: &Conversation,
    ) -> Result<RenderedRecord, RecordFailure<'a>> {
        let output = renderer.conversation(conversation);
        let joined = if output.is_ok() { None } else { renderer.joined(conversation) };
        let Some(joined) = joined else {
            self.counts.interpreted += u64::from(output.is_ok());
            return output;
        };
        let replayed =
            if self.takes(&joined) { self.replay(renderer, || Some(joined.clone())) } else { None };
        let mut output = replayed.unwrap_or_else(|| {
            let output = renderer.conversation(&joined);
            self.counts.interpreted += u64::from(output.is_ok());
            output
        });
        if let Ok(RenderedRecord::Texts(texts)) = &mut output
            && let Some(first) = texts.first_mut()
        {
            first.notes.set(Note::JoinedParts, true);
        }
        output
    }

    /// True if a program can be looked up for a conversation that was read.
    fn takes(&mut self, conversation: &Conversation) -> bool {
        self.replays() && self.reader.take(conversation)
    }

    /// True if conversations may be replayed.
    fn replays(&self) -> bool {
        self.replayer.as_ref().is_some_and(|replayer| !replayer.gave_up())
    }

    /// The replayed text of the current conversation; `None` if the interpreter has to render it.
    fn replay(
        &mut self,
        renderer: &SourceRenderer<'a>,
        read: impl FnOnce() -> Option<Conversation>,
    ) -> Option<Result<RenderedRecord, RecordFailure<'a>>> {
        if self.reader.prompt().is_none() && !renderer.takes_unprompted() {
            return None;
        }
        if renderer.changes_controls(&self.reader) {
            return None;
        }
        let replayer = self.replayer.as_mut().filter(|replayer| replayer.is_tried(&self.reader))?;
        let Rendered { text, literals, .. } = &mut self.rendered;
        self.replayed.printed.text = std::mem::take(text);
        self.replayed.printed.literals = std::mem::take(literals);
        let done = replayer.render(&self.reader, read, &mut self.replayed);
        let output = done.then(|| renderer.replayed(&mut self.replayed, &self.reader));
        self.counts.compiled += u64::from(matches!(output, Some(Ok(_))));
        output
    }

    /// The numbers of conversations that were replayed and interpreted since the last call.
    pub(in crate::pipeline) fn take_rendered(&mut self) -> RenderCounts {
        std::mem::take(&mut self.counts)
    }

    /// Takes back a text buffer, for its memory.
    pub(in crate::pipeline) fn give_back(&mut self, rendered: Rendered) {
        if rendered.text.capacity() <= KEPT {
            self.rendered = rendered;
        }
    }
}

/// True if some words occur in a text. They may be as long as the text.
fn is_in(words: &str, text: &str) -> bool {
    memchr::memmem::find(text.as_bytes(), words.as_bytes()).is_some()
}
