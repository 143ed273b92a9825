//! [`Replayer`]: the recorded programs of one template in one thread, by the structure of conversations.
//!
//! The interpreter renders the first conversation of an [outline](ReplayReader::outline) with a [trace](Trace), which
//! becomes a [program](Program). The program renders later conversations of the outline. The interpreter
//! renders all conversations of an outline that a trace cannot follow, and those whose spans cannot be
//! derived from a program.

use std::borrow::Cow;
use std::collections::HashMap;

use fastpack_template::json::Map;
use fastpack_template::{FollowedParts, Printed, Program, ProgramBuffers, ReplayInput, Trace};

use super::recorded_programs::RecordedPrograms;
use super::span_places::{MarkedTurns, trace_input};
use super::turns::{TurnPrograms, WholeTurns};
use super::turns_alone::AlonePrograms;
use super::unprinted_values::numbered;
use super::wanted_spans::WantedSpans;
use crate::config::Turns;
use crate::record::{Conversation, ReplayReader, is_assistant};
use crate::report::ledger::NoteSet;
use crate::template::chat::ChatTemplate;
use crate::template::conversation::left_out;
use crate::template::conversation::left_out::LeftOut;
use crate::template::conversation::{last_turn, prepared};
use crate::template::trained::completion::{last_spans, spans_of};
use crate::template::trained::turn_markup::cut_places::turn_ends;
use crate::template::trained::turn_markup::learn_markup;
use crate::template::trained::turn_markup::marked_contents::MarkPlace;
use crate::template::trained::turn_markup::markup::TurnMarkup;
use crate::template::trained::turn_markup::message_spans;
use crate::template::trained::turn_markup::message_spans::{AssistantTurn, looped};
use crate::template::trained::turn_notes::NoteOptions;
use crate::template::trained::turn_texts::TurnTexts;

/// Most programs of one outline. They differ in the outcomes of their guards.
const MOST_PROGRAMS: usize = 16;

/// Conversations that are recorded before any is replayed.
const FREE: usize = 64;

/// Conversations that have to be replayed for one more to be recorded. Recording takes some three times as long as the
/// interpreter alone, and a replay saves half of that or less.
const REPLAYS_A_RECORDING: usize = 4;

/// Pieces and steps of all programs after which no more are recorded: some MB a thread.
const MOST_PIECES: usize = 1 << 17;

/// Bytes of texts and values up to which a program runs. Longer conversations are interpreted.
const LONGEST: usize = 1 << 24;

/// A conversation rendered by a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// The text, and the spans that [`WantedSpans`] asks for.
    pub printed: Printed,
    /// The assistant's turns, if they are wanted.
    pub turns: Vec<AssistantTurn>,
    /// The texts in which the turns stand, if that is not the text alone.
    pub texts: TurnTexts,
    /// Bytes at which the text may be cut; empty if the conversation has a prompt.
    pub cuts: Vec<usize>,
    /// The fields of the record that the text leaves out.
    pub left_out: LeftOut,
    /// The notes on its turns.
    pub notes: NoteSet,
}

impl Replayed {
    /// Forgets the last conversation; buffers stay.
    fn clear(&mut self) {
        self.printed.clear();
        self.turns.clear();
        self.texts = TurnTexts::default();
        self.cuts.clear();
        self.left_out.clear();
        self.notes = NoteSet::default();
    }
}

/// Renders conversations that the fast reader has read by recorded programs. Each thread has its own.
#[derive(Debug)]
pub struct Replayer<'t> {
    template: &'t ChatTemplate,
    wanted: WantedSpans,
    choice: Turns,
    /// The options of the notes on turns, if there are notes.
    noted: Option<NoteOptions>,
    cuts: bool,
    known: HashMap<Box<[u8]>, RenderPath<'t>>,
    /// The outline of the current conversation, and the form of its texts where turns are wanted.
    key: Vec<u8>,
    pieces: usize,
    /// The numbers of conversations that were recorded and replayed.
    recorded: usize,
    replayed: usize,
    buffers: ProgramBuffers<'t>,
    /// The text before the last turn or the completion, rendered to find its length.
    scratch: Printed,
    places: Vec<MarkPlace>,
    /// The messages of the assistant in the current conversation.
    speaks: Vec<bool>,
    /// The reason that the last conversation was left to the interpreter.
    refused: &'static str,
}

/// The render path of the conversations of one outline: programs, or the interpreter for a reason.
#[derive(Debug)]
enum RenderPath<'t> {
    Replayed(OutlinePrograms<'t>),
    Interpreted(&'static str),
}

/// The programs of one outline, and the template that they were recorded from.
#[derive(Debug)]
struct OutlinePrograms<'t> {
    /// The template that the programs were recorded from.
    template: &'t ChatTemplate,
    /// The markup of the template's turns, if it is needed and could be learned.
    turn: Option<Cow<'t, TurnMarkup>>,
    programs: Vec<RecordedPrograms>,
}

impl OutlinePrograms<'_> {
    /// The texts in which turns stand that [`are separate`](RecordedPrograms::are_separate) from the `whole` of all messages. `None` at
    /// the limits of the meter of `buffers`.
    fn texts(
        &self,
        programs: &RecordedPrograms,
        choice: Turns,
        whole: &str,
        input: ReplayInput<'_>,
        buffers: &mut ProgramBuffers<'_>,
    ) -> Option<TurnTexts> {
        let Self { template, turn, .. } = self;
        let turn = turn.as_deref();
        if let Some(turns) = &programs.turns {
            let found = turns.print(input, buffers)?;
            return Some(template.texts_of(&found, choice, whole, &turns.stops, turn));
        }
        let found = programs.alone.as_ref()?.print(template, turn, input, buffers)?;
        Some(TurnTexts::of_turns_alone(found, whole, choice))
    }
}

impl<'t> Replayer<'t> {
    /// A replayer of `template` that finds the `wanted` spans of each conversation, whose turns stand in texts
    /// by `choice`. With `cuts` it also finds the bytes at which a text may be cut, unless only the text is
    /// wanted.
    pub fn new(template: &'t ChatTemplate, wanted: WantedSpans, choice: Turns, cuts: bool) -> Self {
        Self {
            template,
            wanted,
            choice,
            noted: None,
            cuts,
            known: HashMap::new(),
            key: Vec::new(),
            pieces: 0,
            recorded: 0,
            replayed: 0,
            buffers: ProgramBuffers::new(template.meter(&|| 0)),
            scratch: Printed::default(),
            places: Vec::new(),
            speaks: Vec::new(),
            refused: "",
        }
    }

    /// Adds notes on the turns of each conversation.
    #[must_use]
    pub fn noting(self, options: NoteOptions) -> Self {
        Self { noted: Some(options), ..self }
    }

    /// Renders a conversation into `out`, and replaces its contents.
    ///
    /// Returns `false` if the interpreter has to render it. `read` parses the conversation that the fast reader has read. It is
    /// called if no program serves the conversation yet.
    pub fn render(
        &mut self,
        reader: &ReplayReader,
        read: impl FnOnce() -> Option<Conversation>,
        out: &mut Replayed,
    ) -> bool {
        if let Some(done) = self.replay(reader, out) {
            self.replayed += usize::from(done);
            return done;
        }
        let learned = self.learn(reader, read, |_| {});
        learned && self.replay(reader, out) == Some(true)
    }

    /// True if trials have shown that programs give the interpreter's output for such conversations. The
    /// first call for each [`WantedSpans`] runs the trials.
    pub fn is_tried(&self, reader: &ReplayReader) -> bool {
        self.template.replays(self.wanted_of(reader), self.choice).is_ok()
    }

    /// True if trials have failed, so that conversations are left to the interpreter.
    pub fn gave_up(&self) -> bool {
        self.template.interprets(self.wanted, self.choice)
    }

    /// The reason that the last conversation was left to the interpreter.
    pub fn refused(&self) -> &'static str {
        self.refused
    }

    /// Writes the outline of a conversation into `key`, with the forms of all messages where its turns are searched for,
    /// or else of those of the assistant, on which notes depend.
    fn write_key(&mut self, reader: &ReplayReader) {
        self.key.clear();
        self.key.extend_from_slice(reader.outline());
        let has_tools = reader.value_places().any(|place| place.is_none());
        let template = self.template.with_tools(has_tools);
        let are_searched = !template.generates || self.choice != Turns::Whole;
        if self.wanted_of(reader).needs_turns() && are_searched {
            self.key.push(u8::from(reader.prompt().is_some()));
            self.write_forms(reader, template, |_| true);
        } else if self.noted.is_some() {
            let mut speaks = std::mem::take(&mut self.speaks);
            speaks.clear();
            speaks.extend(reader.roles().map(is_assistant));
            self.write_forms(reader, template, |message| speaks[message]);
            self.speaks = speaks;
        }
    }

    /// Writes the weights of messages, and the forms of those that are `of_form`.
    fn write_forms(
        &mut self,
        reader: &ReplayReader,
        template: &ChatTemplate,
        of_form: impl Fn(usize) -> bool,
    ) {
        // A message without a weight is as much as the choice of turns makes of it.
        let weights = reader.weights().into_iter().flatten();
        self.key.extend(weights.map(|weight| weight.map_or(2, |weight| u8::from(weight > 0.0))));
        // One search in all texts takes a fraction of the time of a search in each.
        let (forms, decoded) = (template.forms(), reader.decoded());
        let may_have_marks = forms.has_marks(decoded);
        let texts = (0_u32..).zip(reader.places().zip(reader.ranges()));
        for (number, (_, range)) in texts.filter(|(_, ((message, _), _))| of_form(*message)) {
            forms.write_text(number, &decoded[range.clone()], may_have_marks, &mut self.key);
        }
        for (place, value) in reader.value_places().zip(reader.values()) {
            if let Some((_, name)) = place.filter(|(message, _)| of_form(*message)) {
                forms.write_field(name, value, &mut self.key);
            }
        }
    }

    /// The results that are wanted of this conversation, which may have weights or a prompt.
    fn wanted_of(&self, reader: &ReplayReader) -> WantedSpans {
        self.wanted.of(reader.weights().is_some(), reader.prompt().is_some())
    }

    /// Renders a conversation by a program that serves it. `None` if there is no such program yet,
    /// `Some(false)` if the interpreter has to render it.
    pub(in crate::template) fn replay(
        &mut self,
        reader: &ReplayReader,
        out: &mut Replayed,
    ) -> Option<bool> {
        out.clear();
        let Replayed { printed, turns, texts: own_texts, cuts, left_out, notes } = out;
        let wanted = self.wanted_of(reader);
        self.write_key(reader);
        let kind = match self.known.get(&*self.key)? {
            RenderPath::Replayed(kind) => kind,
            RenderPath::Interpreted(reason) => {
                self.refused = reason;
                return Some(false);
            }
        };
        if reader.size() > LONGEST {
            return Some(false);
        }
        let (source, texts, values) = (reader.decoded(), reader.ranges(), reader.values());
        let input = ReplayInput { source, texts, values };
        let buffers = &mut self.buffers;
        buffers.meter.restart(self.template.source.len() + reader.size());
        let programs = kind.programs.iter().find(|programs| programs.serves(input, buffers))?;
        let RecordedPrograms { whole, before, in_whole, unprinted, .. } = programs;
        *notes = programs.notes;
        if whole.print(input.source, buffers, printed).is_err() {
            return Some(false);
        }
        for (value, field) in unprinted {
            value.note(field, input, left_out);
        }
        let Printed { text, spans, span_objects, .. } = printed;
        if programs.are_separate() {
            spans.clear();
            let found = kind.texts(programs, self.choice, text, input, buffers);
            let is_found = found.is_some();
            *own_texts = found.unwrap_or_default();
            return Some(is_found);
        }
        if wanted == WantedSpans::Text {
            spans.clear();
            return Some(true);
        }
        if let Some(turns) = in_whole {
            *spans = turns.spans(whole, source, buffers);
        } else if wanted.needs_turns() && !kind.template.generates {
            self.places.clear();
            let found = {
                let marked = MarkedTurns { template: kind.template, turn: kind.turn.as_deref() };
                marked.derived(reader, whole, text, buffers, &mut self.places)
            };
            let Some(found) = found else {
                self.refused = "turns that marks do not show";
                return Some(false);
            };
            *spans = found;
        }
        // Bytes of the text before the last turn, or before the completion.
        let reached = before.as_ref().and_then(|before| {
            before.serves(input, buffers);
            self.scratch.clear();
            before.print(input.source, buffers, &mut self.scratch).ok()?;
            text.starts_with(&self.scratch.text).then_some(self.scratch.text.len())
        });
        let speaking = reader.roles().enumerate().filter(|(_, role)| is_assistant(role));
        let speaking: Vec<usize> = speaking.map(|(message, _)| message).collect();
        if self.cuts && reader.prompt().is_none() {
            *cuts = turn_ends(text, spans, speaking.len());
        }
        let owners = looped(span_objects, |at| speaking.contains(&at));
        if wanted == WantedSpans::Turns {
            let is_one_each = spans.len() == speaking.len();
            let Some(owners) = owners.or(is_one_each.then_some(speaking)) else {
                self.refused = "turns whose messages are found by rendering prefixes";
                return Some(false);
            };
            let owned = owners.into_iter().zip(spans.iter().cloned());
            *turns = message_spans::turns(kind.template, kind.turn.as_deref(), text, owned);
        } else if wanted == WantedSpans::LastTurn {
            let all = std::mem::take(spans);
            let found = match (speaking.last(), owners) {
                (None, _) => Some(Vec::new()),
                (Some(last), Some(owners)) => Some(spans_of(*last, all, &owners)),
                (Some(0), None) => last_spans(all, Some(0), 1),
                (Some(_), None) => last_spans(all, reached, speaking.len()),
            };
            let Some(found) = found else {
                self.refused = "a last turn that does not show";
                return Some(false);
            };
            *spans = found;
        }
        if reader.prompt().is_some() {
            let Some(reached) = reached else {
                self.refused = "a completion that does not show";
                return Some(false);
            };
            spans.clear();
            spans.push(reached..text.len());
        }
        Some(true)
    }

    /// Interprets a conversation and keeps the recorded programs, which `spoil` may change. Returns whether
    /// the conversation can be replayed now.
    pub(in crate::template) fn learn(
        &mut self,
        reader: &ReplayReader,
        read: impl FnOnce() -> Option<Conversation>,
        spoil: impl FnOnce(&mut RecordedPrograms),
    ) -> bool {
        self.write_key(reader);
        let full = matches!(
            self.known.get(&*self.key),
            Some(RenderPath::Replayed(kind)) if kind.programs.len() == MOST_PROGRAMS
        );
        let is_spent = self.recorded > FREE + self.replayed / REPLAYS_A_RECORDING;
        if full || is_spent || self.pieces > MOST_PIECES || reader.size() > LONGEST {
            self.refused = "too many kinds of conversations";
            return false;
        }
        self.recorded += 1;
        let Some(conversation) = read() else { return false };
        let Some(traced) = self.trace(reader, &conversation) else {
            // The interpreter renders the conversation without a trace, and reports any error.
            return false;
        };
        let outline = self.key.as_slice().into();
        match traced {
            Ok(mut programs) => {
                spoil(&mut programs);
                self.pieces += programs.size();
                let template = self.template.serving(&conversation);
                let turn = || learn_markup::learned(template, &conversation);
                let turn = if self.wanted_of(reader).needs_turns() { turn() } else { None };
                let known = self.known.entry(outline).or_insert_with(|| {
                    RenderPath::Replayed(OutlinePrograms { template, turn, programs: Vec::new() })
                });
                match known {
                    RenderPath::Replayed(kind) => kind.programs.push(programs),
                    RenderPath::Interpreted(_) => return false,
                }
                true
            }
            Err(reason) => {
                self.refused = reason;
                self.known.insert(outline, RenderPath::Interpreted(reason));
                false
            }
        }
    }

    /// Records the programs of a conversation, or returns the reason that it cannot be replayed. `None` if a
    /// render fails.
    fn trace(
        &self,
        reader: &ReplayReader,
        conversation: &Conversation,
    ) -> Option<Result<RecordedPrograms, &'static str>> {
        let template = self.template.serving(conversation);
        template.check(conversation).ok()?;
        let messages = prepared(conversation);
        let new_input = || trace_input(reader, conversation, &messages);
        let trace = |messages: &[Cow<'_, Map>], prompt: Option<bool>| {
            let mut trace = Trace::new(new_input()?);
            let following = match prompt {
                None => FollowedParts::Sources(Some(&mut trace)),
                Some(_) => FollowedParts::Trace(&mut trace),
            };
            let output = template.interpret(messages, conversation, prompt, following)?.ok()?;
            Some(trace.finish().map(|program| (program, output.shown)))
        };
        let (whole, shown) = match trace(&messages, None)? {
            Ok(recorded) => recorded,
            Err(reason) => return Some(Err(reason)),
        };
        let mut unprinted = Vec::new();
        left_out::unprinted(conversation, &messages, &shown?, |message, key, part| {
            unprinted.extend(numbered(reader, message, key, part));
        });
        let is_trained = self.choice.trains(reader.weights(), last_turn(&messages));
        let notes =
            self.noted.map(|options| template.turn_notes(conversation, options, &is_trained));
        let notes = notes.unwrap_or_default();
        let wanted = self.wanted_of(reader);
        // A prompt and its completion are one document.
        let choice = if reader.prompt().is_some() { Turns::Whole } else { self.choice };
        if wanted.needs_turns() && template.needs_rule(choice, conversation, &messages) {
            let record = |count: usize, prompt: bool| {
                let recorded = trace(&messages[..count], Some(prompt))?;
                Some(recorded.map(|(program, _)| program))
            };
            if self.choice == Turns::Whole && reader.prompt().is_none() {
                let (input, mut buffers) = Self::replaying(reader, template);
                let turns = WholeTurns::record(
                    template,
                    conversation,
                    &messages,
                    &whole,
                    input,
                    &mut buffers,
                    record,
                );
                return Some(turns.map(|turns| {
                    let in_whole = Some(turns);
                    RecordedPrograms { in_whole, ..RecordedPrograms::of(whole, unprinted, notes) }
                }));
            }
            let turns = self.record_turns(reader, conversation, &messages, record);
            return Some(turns.map(|turns| {
                let turns = Some(turns);
                RecordedPrograms { turns, ..RecordedPrograms::of(whole, unprinted, notes) }
            }));
        }
        let needs_alone = || template.needs_turns_alone(choice, conversation, &messages);
        if wanted.needs_turns() && template.generates && needs_alone() {
            if choice == Turns::Last {
                return Some(Err("no turn"));
            }
            let turns = template.shown_turns(conversation, &messages, &is_trained);
            let (input, mut buffers) = Self::replaying(reader, template);
            let record = |count: usize| {
                let recorded = trace(&messages[..count], None)?;
                Some(recorded.map(|(program, _)| program))
            };
            let alone =
                AlonePrograms::record(template, conversation, turns, input, &mut buffers, record);
            return Some(alone.map(|alone| {
                let alone = Some(alone);
                RecordedPrograms { alone, ..RecordedPrograms::of(whole, unprinted, notes) }
            }));
        }
        if wanted.needs_turns() && choice == Turns::Each {
            return Some(Err("no turn"));
        }
        let last = last_turn(&messages).filter(|last| wanted == WantedSpans::LastTurn && *last > 0);
        let before = match reader.prompt() {
            Some(prompt) => Some((prompt, true)),
            None => last.map(|last| (last, false)),
        };
        let before = match before.map(|(count, prompt)| trace(&messages[..count], Some(prompt))) {
            None => None,
            Some(Some(Ok((program, _)))) => Some(program),
            Some(Some(Err(reason))) => return Some(Err(reason)),
            Some(None) => {
                return Some(Err("messages that do not render without those that follow"));
            }
        };
        Some(Ok(RecordedPrograms { before, ..RecordedPrograms::of(whole, unprinted, notes) }))
    }

    /// The texts and values of a conversation, and buffers for programs that are replayed for it.
    fn replaying<'r>(
        reader: &'r ReplayReader,
        template: &'t ChatTemplate,
    ) -> (ReplayInput<'r>, ProgramBuffers<'t>) {
        let (source, texts, values) = (reader.decoded(), reader.ranges(), reader.values());
        let mut buffers = ProgramBuffers::new(template.meter(&|| 0));
        buffers.meter.restart(template.source.len() + reader.size());
        (ReplayInput { source, texts, values }, buffers)
    }

    /// Records the programs of turns that are found one by one, or returns the reason that they are interpreted.
    fn record_turns(
        &self,
        reader: &ReplayReader,
        conversation: &Conversation,
        messages: &[Cow<'_, Map>],
        record: impl FnMut(usize, bool) -> Option<Result<Program, &'static str>>,
    ) -> Result<TurnPrograms, &'static str> {
        if self.choice == Turns::Whole || reader.prompt().is_some() {
            return Err("turns that are found one by one in one text");
        }
        let template = self.template.serving(conversation);
        let is_trained = self.choice.trains(reader.weights(), last_turn(messages));
        let (input, mut buffers) = Self::replaying(reader, template);
        TurnPrograms::record(
            template,
            conversation,
            messages,
            is_trained,
            input,
            &mut buffers,
            record,
        )
    }
}
