//! [`Replayer`]: one thread's memory of what a template does to conversations, so that it is interpreted once for many.
//!
//! The first conversation of an [outline](Skim::outline) is rendered by the interpreter with a
//! [trace](Trace), which becomes a [program](Program); those that follow are put together by it. What a
//! trace does not follow is interpreted, now and for ever, and so is whatever the derived spans are not known for.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use fastpack_template::json::{Map, Value as Json};
use fastpack_template::{Frame, Material, Parts, Printed, Program, Trace};

use super::wanted::Wanted;
use crate::record::{Conversation, Skim, is_assistant};
use crate::template::chat::ChatTemplate;
use crate::template::conversation::prepared;
use crate::template::trained::completion::last_spans;
use crate::template::trained::derive::{self, Said, is_text};
use crate::template::trained::marks::{MARKED, Marks, Place};
use crate::template::trained::markup::TurnMarkup;
use crate::template::trained::spans::{self, Turn};
use crate::template::trained::turns::turn_ends;

/// Programs of one outline, which differ in the answers about its texts.
const MOST_PROGRAMS: usize = 16;

/// Pieces and steps of all programs: some MB a thread.
const MOST_PIECES: usize = 1 << 17;

/// Bytes of texts and values that a program is run on: what is longer is interpreted, which knows when to give up.
const LONGEST: usize = 1 << 24;

/// What became of a conversation, as far as it was wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// The text; and as its spans what the assistant wrote, in its last turn if that is wanted, or what completes the prompt.
    pub printed: Printed,
    /// What the assistant wrote, turn by turn.
    pub turns: Vec<Turn>,
    /// Where it may be cut; nowhere if it has a prompt.
    pub cuts: Vec<usize>,
}

/// One thread's way from skimmed conversations to text.
#[derive(Debug)]
pub struct Replayer<'t> {
    template: &'t ChatTemplate,
    wanted: Wanted,
    cuts: bool,
    known: HashMap<Box<[u8]>, Known<'t>>,
    pieces: usize,
    frame: Frame<'t>,
    /// What is rendered besides, to be looked at.
    scratch: Printed,
    places: Vec<Place>,
    /// Why the last conversation was left to the interpreter.
    refused: &'static str,
}

/// What is known about conversations of an outline.
#[derive(Debug)]
enum Known<'t> {
    Replayed(Kind<'t>),
    Interpreted(&'static str),
}

/// What does for the interpreter with conversations of an outline.
#[derive(Debug)]
struct Kind<'t> {
    /// The template that serves them.
    template: &'t ChatTemplate,
    /// How it begins and ends turns, where that is known.
    turn: Option<Cow<'t, TurnMarkup>>,
    programs: Vec<Programs>,
}

/// What renders a conversation.
#[derive(Debug)]
pub(in crate::template) struct Programs {
    /// All of it.
    whole: Program,
    /// What comes before the last turn of the assistant, or before what completes the prompt, where that is wanted.
    before: Option<Program>,
}

impl Programs {
    fn size(&self) -> usize {
        self.whole.size() + self.before.as_ref().map_or(0, Program::size)
    }

    /// The program for the whole conversation, for tests to spoil.
    #[cfg(test)]
    pub(in crate::template) fn whole(&mut self) -> &mut Program {
        &mut self.whole
    }
}

impl<'t> Replayer<'t> {
    /// Renders with `template`, and tells what is `wanted`; also where a conversation may be cut if `cuts` asks for it, of
    /// which the text alone says nothing.
    pub fn new(template: &'t ChatTemplate, wanted: Wanted, cuts: bool) -> Self {
        Self {
            template,
            wanted,
            cuts,
            known: HashMap::new(),
            pieces: 0,
            frame: Frame::new(template.meter(&|| 0)),
            scratch: Printed::default(),
            places: Vec::new(),
            refused: "",
        }
    }

    /// Renders a conversation into `out`, whatever that held before.
    ///
    /// `false` if the interpreter has to do it. `read` gives the conversation that was skimmed, for the first of its kind.
    pub fn render(
        &mut self,
        skim: &Skim,
        read: impl FnOnce() -> Option<Conversation>,
        out: &mut Replayed,
    ) -> bool {
        self.replay(skim, out).unwrap_or_else(|| {
            let learned = self.learn(skim, read, |_| {});
            learned && self.replay(skim, out) == Some(true)
        })
    }

    /// Whether the programs of the template do as the interpreter with such conversations. They are tried out before the
    /// first of which as much is wanted.
    pub fn is_tried(&self, skim: &Skim) -> bool {
        self.template.replays(self.wanted_of(skim)).is_ok()
    }

    /// Whether it is known by now that conversations are left to the interpreter.
    pub fn gave_up(&self) -> bool {
        self.template.interprets(self.wanted)
    }

    /// Why the last conversation was left to the interpreter.
    pub fn refused(&self) -> &'static str {
        self.refused
    }

    /// What is wanted of this conversation.
    fn wanted_of(&self, skim: &Skim) -> Wanted {
        self.wanted.of(skim.weights().is_some(), skim.prompt().is_some())
    }

    /// Runs the program that serves a conversation; nothing if there is none yet.
    pub(in crate::template) fn replay(&mut self, skim: &Skim, out: &mut Replayed) -> Option<bool> {
        let Replayed { printed, turns, cuts } = out;
        printed.clear();
        turns.clear();
        cuts.clear();
        let wanted = self.wanted_of(skim);
        let kind = match self.known.get(skim.outline())? {
            Known::Replayed(kind) => kind,
            Known::Interpreted(reason) => {
                self.refused = reason;
                return Some(false);
            }
        };
        if skim.size() > LONGEST {
            return Some(false);
        }
        let material = material(skim);
        let frame = &mut self.frame;
        frame.meter.restart(self.template.source.len() + skim.size());
        let mut serves = |programs: &&Programs| {
            let before = programs.before.as_ref();
            before.is_none_or(|before| before.serves(material, frame))
                && programs.whole.serves(material, frame)
        };
        let Programs { whole, before } = kind.programs.iter().find(&mut serves)?;
        if whole.print(material.source, frame, printed).is_err() {
            return Some(false);
        }
        let Printed { text, spans, .. } = printed;
        if wanted == Wanted::Text {
            spans.clear();
            return Some(true);
        }
        if wanted.needs_turns() && !kind.template.generates {
            self.places.clear();
            let found = kind.derived(skim, whole, text, frame, &mut self.places);
            let Some(found) = found else {
                self.refused = "turns that are found by rendering prefixes";
                return Some(false);
            };
            *spans = found;
        }
        // How much of the text comes before the last turn, or before what completes the prompt.
        let reached = before.as_ref().and_then(|before| {
            before.serves(material, frame);
            self.scratch.clear();
            before.print(material.source, frame, &mut self.scratch).ok()?;
            text.starts_with(&self.scratch.text).then_some(self.scratch.text.len())
        });
        let speaking = skim.roles().enumerate().filter(|(_, role)| is_assistant(role));
        let speaking: Vec<usize> = speaking.map(|(message, _)| message).collect();
        if self.cuts && skim.prompt().is_none() {
            *cuts = turn_ends(text, spans, speaking.len());
        }
        if wanted == Wanted::Turns {
            if spans.len() != speaking.len() {
                self.refused = "turns whose messages are found by rendering prefixes";
                return Some(false);
            }
            let owned = speaking.into_iter().zip(spans.iter().cloned());
            *turns = spans::turns(kind.template, kind.turn.as_deref(), text, owned);
        } else if wanted == Wanted::LastTurn {
            let all = std::mem::take(spans);
            let found = match speaking.last() {
                None => Some(Vec::new()),
                Some(0) => last_spans(all, Some(0), 1),
                Some(_) => last_spans(all, reached, speaking.len()),
            };
            let Some(found) = found else {
                self.refused = "a last turn that does not show";
                return Some(false);
            };
            *spans = found;
        }
        if skim.prompt().is_some() {
            let Some(reached) = reached else {
                self.refused = "a completion that does not show";
                return Some(false);
            };
            spans.clear();
            spans.push(reached..text.len());
        }
        Some(true)
    }

    /// Interprets a conversation and keeps what was traced; `spoil` may change that. Whether it can be replayed now.
    pub(in crate::template) fn learn(
        &mut self,
        skim: &Skim,
        read: impl FnOnce() -> Option<Conversation>,
        spoil: impl FnOnce(&mut Programs),
    ) -> bool {
        let full = matches!(
            self.known.get(skim.outline()),
            Some(Known::Replayed(kind)) if kind.programs.len() == MOST_PROGRAMS
        );
        if full || self.pieces > MOST_PIECES || skim.size() > LONGEST {
            self.refused = "too many kinds of conversations";
            return false;
        }
        let Some(conversation) = read() else { return false };
        let Some(traced) = self.trace(skim, &conversation) else {
            // The interpreter will say what is wrong.
            return false;
        };
        let outline = skim.outline().into();
        match traced {
            Ok(mut programs) => {
                spoil(&mut programs);
                self.pieces += programs.size();
                let template = self.template.serving(&conversation);
                let turn = || derive::learned(template, &conversation);
                let turn = if self.wanted_of(skim).needs_turns() { turn() } else { None };
                let known = self.known.entry(outline).or_insert_with(|| {
                    Known::Replayed(Kind { template, turn, programs: Vec::new() })
                });
                match known {
                    Known::Replayed(kind) => kind.programs.push(programs),
                    Known::Interpreted(_) => return false,
                }
                true
            }
            Err(reason) => {
                self.refused = reason;
                self.known.insert(outline, Known::Interpreted(reason));
                false
            }
        }
    }

    /// What the interpreter does with a conversation, if that can be replayed; nothing if it fails.
    fn trace(
        &self,
        skim: &Skim,
        conversation: &Conversation,
    ) -> Option<Result<Programs, &'static str>> {
        let template = self.template.serving(conversation);
        template.check(conversation).ok()?;
        let messages = prepared(conversation);
        let given = || given(skim, conversation, &messages);
        let trace = |messages: &[Cow<'_, Map>], prompt: Option<bool>| {
            let mut trace = Trace::new(given()?);
            template.interpret(messages, conversation, prompt, Some(&mut trace))?.ok()?;
            Some(trace.finish())
        };
        let whole = match trace(&messages, None)? {
            Ok(program) => program,
            Err(reason) => return Some(Err(reason)),
        };
        let wanted = self.wanted_of(skim);
        let spans_learned = template.generates || derive::learned(template, conversation).is_some();
        if wanted.needs_turns() && !spans_learned {
            return Some(Err("turns whose header cannot be learned"));
        }
        let last = messages.iter().rposition(|message| derive::is_assistant(message));
        let last = last.filter(|last| wanted == Wanted::LastTurn && *last > 0);
        let before = match skim.prompt() {
            Some(prompt) => Some((prompt, true)),
            None => last.map(|last| (last, false)),
        };
        let before = match before.map(|(count, prompt)| trace(&messages[..count], Some(prompt))) {
            None => None,
            Some(Some(Ok(program))) => Some(program),
            Some(Some(Err(reason))) => return Some(Err(reason)),
            Some(None) => {
                return Some(Err("messages that do not render without those that follow"));
            }
        };
        Some(Ok(Programs { whole, before }))
    }
}

impl Kind<'_> {
    /// What the assistant wrote of `text`, which `program` printed, as the interpreter's marks would show it.
    fn derived(
        &self,
        skim: &Skim,
        program: &Program,
        text: &str,
        frame: &mut Frame<'_>,
        places: &mut Vec<Place>,
    ) -> Option<Vec<Range<usize>>> {
        let said = |role| Said { by_assistant: is_assistant(role), is_text: false };
        let mut messages: Vec<Said> = skim.roles().map(said).collect();
        if !messages.iter().any(|message| message.by_assistant) {
            return Some(Vec::new());
        }
        let texts = skim.places().map(|place| (place, true));
        let values = skim.value_places().zip(skim.values());
        let values = values.filter_map(|(place, value)| Some((place?, is_text(value))));
        for ((message, _), is_text) in texts.chain(values).filter(|((_, key), _)| *key == "content")
        {
            messages[message].is_text = is_text;
        }
        let keys = skim.places().chain(skim.value_places().flatten());
        for (message, _) in keys.filter(|(_, key)| *key == "tool_calls") {
            messages[message].is_text = false;
        }
        let turn = self.turn.as_deref()?;
        if program.is_blind_to_marks() {
            program.places(skim.decoded(), frame, |text, range| {
                if let Some((message, key)) = skim.places().nth(text)
                    && MARKED.contains(&key)
                {
                    let ends = [(range.start, false), (range.end, true)];
                    places.extend(ends.map(|(at, is_behind)| Place { message, at, is_behind }));
                }
            });
        } else {
            let marks = Marks::absent_from([text], messages.len())?;
            let (plain, found) = marks.unmark(&with_marks(skim, marks, program, frame)?);
            if plain != text {
                return None;
            }
            *places = found;
        }
        derive::from_places(self.template, turn, text, &messages, places)
    }
}

/// What `program` makes of a conversation with marks; nothing if it serves no such conversation.
fn with_marks(
    skim: &Skim,
    marks: Marks,
    program: &Program,
    frame: &mut Frame<'_>,
) -> Option<String> {
    let mut source = String::with_capacity(skim.decoded().len());
    let mut texts = Vec::with_capacity(skim.ranges().len());
    for ((message, key), range) in skim.places().zip(skim.ranges()) {
        let plain = Json::String(skim.decoded()[range.clone()].into());
        let Json::String(text) = marks.marked(key, &plain, message)? else { return None };
        let start = source.len();
        source.push_str(&text);
        texts.push(start..source.len());
    }
    let values = skim.values().iter().zip(skim.value_places()).map(|(value, place)| match place {
        Some((message, key)) => marks.marked(key, value, message),
        None => Some(value.clone()),
    });
    let values: Vec<Json> = values.collect::<Option<_>>()?;
    let material = Material { source: &source, texts: &texts, values: &values };
    if !program.serves(material, frame) {
        return None;
    }
    let mut printed = Printed::default();
    program.print(&source, frame, &mut printed).ok()?;
    Some(printed.text)
}

/// What of a conversation its outline does not tell.
fn material(skim: &Skim) -> Material<'_> {
    Material { source: skim.decoded(), texts: skim.ranges(), values: skim.values() }
}

/// The same of the conversation as the interpreter sees it; nothing where that is another one.
fn given<'r>(
    skim: &Skim,
    conversation: &'r Conversation,
    prepared: &'r [Cow<'_, Map>],
) -> Option<Parts<'r>> {
    let mut given = Parts::default();
    for ((message, key), range) in skim.places().zip(skim.ranges()) {
        let Json::String(text) = prepared.get(message)?.get(key)? else { return None };
        if **text != skim.decoded()[range.clone()] {
            return None;
        }
        given.texts.push(text);
    }
    given.messages = prepared.iter().map(|message| (&**message, Vec::new())).collect();
    for (number, (place, skimmed)) in skim.value_places().zip(skim.values()).enumerate() {
        let value = match place {
            Some((message, key)) => {
                let (key, value) = prepared.get(message)?.get_key_value(key)?;
                given.messages[message].1.push((key, number));
                value
            }
            None => conversation.tools.as_ref()?,
        };
        if value != skimmed {
            return None;
        }
        given.values.push(value);
    }
    let tools = skim.value_places().any(|place| place.is_none());
    (prepared.len() == skim.roles().len() && tools == conversation.tools.is_some()).then_some(given)
}
