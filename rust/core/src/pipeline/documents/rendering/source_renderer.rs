//! [`SourceRenderer`]: renders a record as text, and finds the trained part of it.

use std::path::Path;
use std::sync::Arc;

use fastpack_template::json::Map;

use crate::config::inputs::fields;
use crate::config::{Classes, DocumentKind, Eos, Reading, SpecialInText, Turns};
use crate::document::bos_and_eos::TextKind;
use crate::document::ids::TrainedIds;
use crate::document::{SeveralTexts, TextArrangement, class_names};
use crate::error::{Error, Result};
use crate::pipeline::documents::rendering::answers::render_answers;
use crate::pipeline::documents::rendering::arguments::{
    decode_answers, decode_arguments, has_calls,
};
use crate::pipeline::documents::rendering::control_tokens::markers_in_texts::MarkersInTexts;
use crate::pipeline::documents::rendering::control_tokens::special_in_text::{
    pair_with_ordinary, with_ordinary,
};
use crate::pipeline::documents::rendering::pictures::PictureTexts;
use crate::pipeline::documents::rendering::prompt_without_template::PromptWithoutTemplate;
use crate::pipeline::documents::rendering::record_failure::RecordFailure;
use crate::pipeline::documents::rendering::train_on::TrainedPart;
use crate::pipeline::documents::shape_recogniser::expectation;
use crate::pipeline::job::{Job, JobTemplate};
use crate::record::{
    Answers, Conversation, Fault, Labelled, MessageForms, PICTURES_WITH_TEXTS, Pair, Prompted,
    Record, RecordTokens, ReplayReader, Shape, pair_as_messages, read,
};
use crate::report::ledger::{Note, NoteSet, Reason};
use crate::source::RawContent;
use crate::template::{CALLS, ChatTemplate, NoteOptions, REASONING, Rendered, Replayed};

/// The result of a record.
pub(crate) enum RenderedRecord {
    /// A text to be tokenized.
    Text(Rendered, TextKind),
    /// The texts of a conversation, each a document.
    Texts(Vec<Rendered>),
    /// Ids, and the trained part of them.
    Tokens(RecordTokens, TrainedIds),
    /// Texts that are tokenized one by one.
    Several(SeveralTexts),
}

/// Renders the records of a source as text.
pub(crate) struct SourceRenderer<'a> {
    /// The choice of the trained part.
    trained_part: TrainedPart<'a>,
    /// The kind of documents that are made.
    kind: DocumentKind,
    /// The classes of labels.
    classes: &'a Classes,
    /// True if the names of classes are found in records.
    finds_classes: bool,
    /// The treatment of control tokens in texts of users and tools.
    special: SpecialInText,
    /// True if arguments of calls in JSON text are decoded.
    decodes: bool,
    /// The addition of an end-of-text token.
    eos: Eos,
    /// The end-of-text token, if the tokenizer has one.
    last: Option<String>,
    template: std::result::Result<&'a ChatTemplate, &'a Error>,
    /// The forms of messages that the chat template takes.
    takes: MessageForms,
    /// The prompt formats of requests that the chat template does not render.
    prompts: PromptWithoutTemplate,
    /// The examples before each request.
    examples: Vec<(String, String)>,
    /// The end-of-text token, if the chat template writes it after an answer.
    end: Option<String>,
    /// The markers of prompts that are formatted already, and of answers that are ended already.
    markers: MarkersInTexts,
    /// The texts of pictures, if they are packed.
    pictures: Option<PictureTexts<'a>>,
}

impl<'a> SourceRenderer<'a> {
    pub(crate) fn new(job: &'a Job, reading: &Reading) -> Result<Self> {
        Self::by_turns(job, reading, job.options.tokens.turns)
    }

    /// A renderer with another choice of the documents of a conversation.
    pub(crate) fn by_turns(job: &'a Job, reading: &Reading, turns: Turns) -> Result<Self> {
        Ok(Self {
            trained_part: TrainedPart::by_turns(&job.options, turns),
            kind: job.options.tokens.documents,
            classes: &job.options.tokens.classes,
            finds_classes: job.finds_classes && job.options.tokens.classes.is_unknown(),
            special: job.options.tokens.special_in_text,
            decodes: job.options.tokens.decode_arguments,
            eos: job.options.tokens.eos,
            last: job.end.clone().filter(|end| !end.is_empty()),
            template: match &job.template {
                JobTemplate::Ready(template) => Ok(template),
                JobTemplate::Refused(error) => Err(error),
            },
            takes: MessageForms {
                calls: match &job.template {
                    JobTemplate::Ready(template) => template.message_forms().calls,
                    JobTemplate::Refused(_) => false,
                },
                masks_calls: job
                    .options
                    .tokens
                    .train_on
                    .parts()
                    .is_some_and(|it| it.mask_tool_calls),
                pictures: job.options.tokens.images.is_some(),
            },
            prompts: PromptWithoutTemplate::new(reading)?,
            examples: reading.examples.clone(),
            end: written_end(job),
            markers: MarkersInTexts::of(job),
            pictures: PictureTexts::of(job),
        })
    }

    /// The forms of messages that the chat template takes.
    pub(crate) fn takes(&self) -> MessageForms {
        self.takes
    }

    /// True if the chat template reads a variable.
    pub(crate) fn reads_variable(&self, name: &str) -> bool {
        self.template.is_ok_and(|template| template.reads_variable(name))
    }

    /// The record as a conversation, if the chat template renders it. Its prompt is dropped unless only
    /// completions are trained.
    pub(crate) fn as_rendered(&self, record: Record) -> std::result::Result<Record, Fault> {
        let mut keeps_prompt = self.trained_part.heeds_prompts();
        let mut conversation = match record {
            Record::Conversation(mut conversation) => {
                // With another `train_on` all of the completion is trained, or turns whether of the prompt or not.
                if keeps_prompt && self.trained_part.takes_unprompted() {
                    conversation.join_dialogue();
                }
                conversation
            }
            Record::Pair(mut pair)
                if !self.prompts.is_chosen() && !pair.plain && self.template.is_ok() =>
            {
                if let Some(end) = &self.end {
                    strip_end(&mut pair.answer, end)?;
                }
                // The answers of a history are turns like that of the record.
                keeps_prompt &= pair.history.is_empty() || !self.trained_part.takes_unprompted();
                let trains_examples = keeps_prompt || self.trained_part.takes_all();
                pair_as_messages(&pair, &self.examples, trains_examples)?
            }
            other => return Ok(other),
        };
        if !keeps_prompt {
            conversation.prompt = None;
        }
        if self.decodes
            && let Ok(template) = self.template
        {
            decode_arguments(template, &mut conversation);
        }
        Ok(Record::Conversation(conversation))
    }

    /// Renders a record, as [`as_rendered`](SourceRenderer::as_rendered) returned it.
    pub(crate) fn render(
        &self,
        record: Record,
    ) -> std::result::Result<RenderedRecord, RecordFailure<'a>> {
        match record {
            Record::Text(text) => self.text(text),
            Record::Tokens(tokens) => self.tokens(tokens),
            Record::Conversation(conversation) => self.conversation(&conversation),
            Record::Pair(pair) => self.pair(&pair),
            Record::Answers(answers) => self.answers(answers),
            Record::Labelled(labelled) => self.labelled(labelled),
        }
    }

    /// The kind of documents that are made.
    pub(crate) fn kind(&self) -> DocumentKind {
        self.kind
    }

    /// Renders a record for documents that are not [of whole texts](DocumentKind::is_of_whole_texts): of a conversation
    /// or a request, the prompt.
    pub(crate) fn render_other(
        &self,
        record: Record,
    ) -> std::result::Result<RenderedRecord, RecordFailure<'a>> {
        let prompt_of = |conversation: &Conversation| {
            let template = self.template()?;
            let rendered = template.with_lists(conversation, |it| template.render_prompt(it));
            rendered.map_err(|fault| RecordFailure::from(template.explained(fault, conversation)))
        };
        let (mut unread, mut notes) = (Vec::new(), NoteSet::default());
        let (text, has_joined_parts) = match record {
            Record::Tokens(tokens) => {
                return Ok(RenderedRecord::Tokens(
                    RecordTokens { trained: None, ..tokens },
                    TrainedIds::Nothing,
                ));
            }
            Record::Answers(answers) => return self.answers(answers),
            Record::Labelled(labelled) => return self.labelled(labelled),
            Record::Text(text) => ((text, TextKind::Text), false),
            Record::Conversation(mut conversation) => {
                let template = self.template()?;
                if self.decodes {
                    decode_arguments(template, &mut conversation);
                }
                let seen = template.turn_notes(&conversation, NoteOptions::TEXTS, &|_| true);
                notes = self.controls_in(&conversation.messages);
                notes = notes.and(seen.without(Note::UnendedTurns));
                let (text, joined) = prompt_of(&conversation)?;
                ((text, TextKind::Conversation), joined)
            }
            Record::Pair(pair) if !self.prompts.is_chosen() && self.template.is_ok() => {
                let mut request = pair_as_messages(&pair, &self.examples, true)?;
                request.messages.pop();
                notes = self.controls_in(&request.messages);
                let (text, joined) = prompt_of(&request)?;
                ((text, TextKind::Conversation), joined)
            }
            Record::Pair(pair) => {
                let (mut text, answer) = self.prompts.of(&pair).render(&pair)?;
                unread = unplaced(&pair);
                notes = self.controls_in_request(&pair);
                text.truncate(answer.start);
                ((text, TextKind::Text), false)
            }
        };
        self.special.check_several(notes)?;
        notes.set(Note::JoinedParts, has_joined_parts);
        Ok(RenderedRecord::Several(SeveralTexts {
            texts: vec![text],
            labels: Vec::new(),
            whole: TextArrangement::Answers,
            notes,
            unread,
        }))
    }

    /// Texts with the numbers of their classes.
    fn labelled(
        &self,
        labelled: Labelled,
    ) -> std::result::Result<RenderedRecord, RecordFailure<'a>> {
        let several = self.kind == DocumentKind::MultiLabelled;
        let names = if self.finds_classes { labelled.names(several)? } else { None };
        let labels = match names {
            Some(names) => class_names::of_names(names),
            None if several => labelled.truths(self.classes)?,
            None => vec![labelled.class(self.classes)?],
        };
        let texts = labelled.texts.into_iter().map(|text| (text, TextKind::Text)).collect();
        let whole = TextArrangement::Framed;
        Ok(RenderedRecord::Several(SeveralTexts {
            texts,
            labels,
            whole,
            ..SeveralTexts::default()
        }))
    }

    /// Renders a prompt, and the prompt with each of its answers, as the trainers of TRL do.
    fn answers(&self, answers: Answers) -> std::result::Result<RenderedRecord, RecordFailure<'a>> {
        let Answers { prompted, label } = answers;
        let mut notes = NoteSet::default();
        let (texts, has_joined_parts) = match prompted {
            Prompted::Texts { prompt, answers } => {
                let whole = answers.into_iter().map(|answer| {
                    let mut text = format!("{prompt}{answer}");
                    match &self.last {
                        Some(end)
                            if self.eos != Eos::Never
                                && !answer.trim_end().ends_with(end.as_str()) =>
                        {
                            text.push_str(end);
                        }
                        _ => {}
                    }
                    (text, TextKind::Text)
                });
                let whole: Vec<_> = whole.collect();
                ([(prompt, TextKind::Text)].into_iter().chain(whole).collect(), false)
            }
            Prompted::Messages { mut prompt, mut answers } => {
                let template = self.template()?;
                if self.decodes {
                    decode_answers(template, &mut prompt, &mut answers);
                }
                let spoken = std::iter::once(&prompt.messages).chain(&answers);
                notes = spoken.fold(notes, |notes, messages| notes.and(self.controls_in(messages)));
                for answer in &answers {
                    let messages = [&prompt.messages[..], answer].concat();
                    let whole = Conversation { messages, ..prompt.clone() };
                    notes = notes.and(template.turn_notes(&whole, NoteOptions::TEXTS, &|_| true));
                }
                render_answers(template, prompt, answers)?
            }
        };
        self.special.check_several(notes)?;
        notes.set(Note::JoinedParts, has_joined_parts);
        let labels = label.into_iter().map(u32::from).collect();
        let whole = TextArrangement::Answers;
        let unread = Vec::new();
        Ok(RenderedRecord::Several(SeveralTexts { texts, labels, whole, notes, unread }))
    }

    /// True if a conversation that the fast reader has read has to be read as a whole, because its arguments may be decoded.
    pub(crate) fn reads_whole(&self, reader: &ReplayReader) -> bool {
        self.decodes && has_calls(reader)
    }

    /// True if a conversation has control tokens in texts of users and tools that are refused, or encoded as other text.
    pub(crate) fn changes_controls(&self, reader: &ReplayReader) -> bool {
        self.special != SpecialInText::Encode
            && self.markers.in_fast_read(reader).has(Note::ControlTokens)
    }

    /// True if conversations without a prompt are trained.
    pub(crate) fn takes_unprompted(&self) -> bool {
        self.trained_part.takes_unprompted()
    }

    /// The result of a replayed conversation, with its trained part and the places at which it may be cut.
    pub(crate) fn replayed(
        &self,
        replayed: &mut Replayed,
        reader: &ReplayReader,
    ) -> std::result::Result<RenderedRecord, RecordFailure<'a>> {
        let notes = replayed.notes;
        let rendered = self.trained_part.replayed(replayed, reader)?;
        let notes = notes.and(self.markers.in_fast_read(reader));
        Ok(self.conversation_texts(rendered, notes))
    }

    fn text(&self, text: String) -> std::result::Result<RenderedRecord, RecordFailure<'a>> {
        let trained = self.trained_part.of_text()?;
        Ok(self.text_record(Rendered { text, trained, ..Rendered::default() }, TextKind::Text))
    }

    fn tokens(
        &self,
        tokens: RecordTokens,
    ) -> std::result::Result<RenderedRecord, RecordFailure<'a>> {
        let trained = self.trained_part.of_tokens(&tokens)?;
        Ok(RenderedRecord::Tokens(tokens, trained))
    }

    /// Renders a conversation as it is.
    pub(crate) fn conversation(
        &self,
        conversation: &Conversation,
    ) -> std::result::Result<RenderedRecord, RecordFailure<'a>> {
        let template = self.template()?;
        let marked = self.markers.in_messages(&conversation.messages);
        self.special.check(marked)?;
        // Before the render, which asks whether the form is trusted: the notes on a new form try it.
        let notes = self.trained_part.notes(template, conversation).and(marked);
        let render = |it: &Conversation| {
            let result = self.trained_part.render(template, it);
            result.map_err(|fault| template.explained(fault, it))
        };
        let rendered = if self.special == SpecialInText::Split && marked.has(Note::ControlTokens) {
            with_ordinary(conversation, &self.markers, render)?
        } else {
            render(conversation)?
        };
        Ok(self.conversation_texts(rendered, notes))
    }

    /// Makes the texts of the pictures of some records, of the file at `path` or in memory, if it takes pictures.
    pub(crate) fn prepare_pictures<'r>(
        &self,
        records: impl Iterator<Item = RawContent<'r>>,
        shape: Option<&Shape>,
        reading: &Reading,
        path: Option<&Path>,
    ) -> Result<()> {
        let Some(pictures) = &self.pictures else { return Ok(()) };
        let expected = expectation(reading, self.kind());
        let conversations =
            records.filter_map(|raw| match read(raw, shape, expected, self.takes) {
                Ok(Record::Conversation(conversation)) => Some(conversation),
                _ => None,
            });
        pictures.prepare(conversations, path)
    }

    /// Puts the pictures of a conversation, a record of the file at `path` or in memory, into its texts.
    pub(crate) fn insert_pictures(
        &self,
        record: &mut RenderedRecord,
        conversation: &Conversation,
        path: Option<&Path>,
    ) -> std::result::Result<(), RecordFailure<'a>> {
        match (&self.pictures, record) {
            (Some(pictures), RenderedRecord::Texts(texts)) => {
                pictures.replace_markers(texts, conversation, path)
            }
            _ => Ok(()),
        }
    }

    /// The conversation with its lists of texts joined, if the template refuses it with them.
    pub(crate) fn joined(&self, conversation: &Conversation) -> Option<Conversation> {
        self.template.ok()?.joined(conversation)
    }

    fn pair(&self, pair: &Pair) -> std::result::Result<RenderedRecord, RecordFailure<'a>> {
        if pair.pictures.as_ref().is_some_and(|pictures| !pictures.is_empty()) {
            return Err(Fault::new(Reason::Picture, PICTURES_WITH_TEXTS).into());
        }
        let (prompts, adds_words) = (self.prompts.of(pair), self.prompts.adds_words(pair));
        let notes = if adds_words { self.controls_in_request(pair) } else { NoteSet::default() };
        self.special.check(notes)?;
        let (text, answer, ordinary) =
            if self.special == SpecialInText::Split && notes.has(Note::ControlTokens) {
                pair_with_ordinary(pair, &self.markers, |it| prompts.render(it))?
            } else {
                let (text, answer) = prompts.render(pair)?;
                (text, answer, Vec::new())
            };
        let trained = self.trained_part.of_pair(answer)?;
        let is_formatted = adds_words && self.markers.is_formatted(&pair.request);
        let rendered = Rendered {
            text,
            ordinary,
            trained,
            unread: unplaced(pair),
            notes: notes.and(NoteSet::of(Note::FormattedPrompts, is_formatted)),
            ..Rendered::default()
        };
        Ok(self.text_record(rendered, TextKind::Text))
    }

    /// The note of a control token of the tokenizer in the texts of a request.
    fn controls_in_request(&self, pair: &Pair) -> NoteSet {
        let mut texts = [Some(&pair.request), pair.input.as_ref()].into_iter().flatten();
        let has = texts.any(|text| self.markers.has_control_token(text));
        NoteSet::of(Note::ControlTokens, has)
    }

    /// The note of a control token of the tokenizer in messages of users and tools.
    fn controls_in(&self, messages: &[Arc<Map>]) -> NoteSet {
        self.markers.in_messages(messages).only(Note::ControlTokens)
    }

    /// The texts of a conversation. Its notes go to the first text.
    fn conversation_texts(&self, mut texts: Vec<Rendered>, notes: NoteSet) -> RenderedRecord {
        for rendered in &mut texts {
            rendered.end_untrained = self.trained_part.leaves_end();
        }
        if let Some(first) = texts.first_mut() {
            // Ends that are left out by an option are not missed, nor those that it adds.
            let is_ended =
                self.trained_part.leaves_end() || self.eos == Eos::Always && self.last.is_some();
            let notes = if is_ended { notes.without(Note::UnendedTurns) } else { notes };
            first.notes = first.notes.and(notes);
        }
        if let [first, _, ..] = &mut texts[..] {
            // The render of all messages lacks what only other documents have. The notes tell of all documents.
            let notes = first.notes;
            let lacks_reasoning =
                notes.has(Note::LastReasoningLeftOut) || notes.has(Note::EarlierReasoningLeftOut);
            let lacks_calls = notes.has(Note::CallsLeftOut);
            first.left_out.retain(|field| {
                (lacks_reasoning || !REASONING.contains(&&**field))
                    && (lacks_calls || !CALLS.contains(&&**field))
            });
        }
        RenderedRecord::Texts(texts)
    }

    /// A text with its trained part.
    fn text_record(&self, mut rendered: Rendered, kind: TextKind) -> RenderedRecord {
        rendered.end_untrained = self.trained_part.leaves_end();
        RenderedRecord::Text(rendered, kind)
    }

    fn template(&self) -> std::result::Result<&'a ChatTemplate, RecordFailure<'a>> {
        self.template.map_err(RecordFailure::NoTemplate)
    }
}

/// The fields of a pair for which a prompt of words has no place.
fn unplaced(pair: &Pair) -> Vec<Arc<str>> {
    if pair.history.is_empty() { Vec::new() } else { vec![Arc::from(fields::HISTORY[0])] }
}

/// The end-of-text token, if the chat template writes it after an answer.
fn written_end(job: &Job) -> Option<String> {
    let JobTemplate::Ready(template) = &job.template else { return None };
    let end = job.end.as_ref().filter(|end| !end.is_empty())?;
    template.ends_with(end).then(|| end.clone())
}

/// Removes all end-of-text tokens from the end of an answer, because the template writes one there.
fn strip_end(answer: &mut String, end: &str) -> std::result::Result<(), Fault> {
    while let Some(rest) = answer.trim_end().strip_suffix(end) {
        answer.truncate(rest.len());
        if answer.is_empty() {
            return Err(Fault::new(
                Reason::Empty,
                format!("the answer is `{end}` and nothing else"),
            ));
        }
    }
    Ok(())
}
