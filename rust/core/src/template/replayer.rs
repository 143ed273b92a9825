//! [`Replayer`]: one thread's memory of what a template does to conversations, so that it is interpreted once for many.
//!
//! The first conversation of an [outline](Skim::outline) is rendered by the interpreter with a
//! [trace](super::trace), which becomes a [program](super::replay); those that follow are put together by it. What a
//! trace does not follow is interpreted, now and for ever, and so is whatever the derived spans are not known for.

use std::collections::HashMap;
use std::ops::Range;

use super::derive::{self, Said};
use super::marks::{MARKED, has_marks};
use super::replay::{Bench, Program};
use super::trace::Trace;
use super::{ChatTemplate, prepare};
use crate::record::value::Value as Json;
use crate::record::{Conversation, Skim, is_assistant};

/// Programs of one outline, which differ in the answers about its texts.
const MOST_PROGRAMS: usize = 8;

/// Pieces and steps of all programs: some MB a thread.
const MOST_PIECES: usize = 1 << 16;

/// Bytes of texts that a program is run on: what is longer is interpreted, which knows when to give up.
const LONGEST: usize = 1 << 24;

/// One thread's way from skimmed conversations to text.
#[derive(Debug)]
pub struct Replayer<'t> {
    template: &'t ChatTemplate,
    spans: bool,
    known: HashMap<Box<[u8]>, Known>,
    pieces: usize,
    bench: Bench,
    places: Vec<(usize, usize)>,
    /// Why the last conversation was left to the interpreter.
    refused: &'static str,
}

/// What is known about conversations of an outline.
#[derive(Debug)]
enum Known {
    Programs(Vec<Program>),
    Interpreted(&'static str),
}

impl<'t> Replayer<'t> {
    /// Renders with `template`, and tells what the assistant wrote if `spans` asks for it.
    pub fn new(template: &'t ChatTemplate, spans: bool) -> Self {
        Self {
            template,
            spans,
            known: HashMap::new(),
            pieces: 0,
            bench: Bench::default(),
            places: Vec::new(),
            refused: "",
        }
    }

    /// Whether it tells what the assistant wrote.
    pub fn marks(&self) -> bool {
        self.spans
    }

    /// Renders a conversation into `text`, and what the assistant wrote of it into `spans`, both of which are emptied.
    ///
    /// `false` if the interpreter has to do it. `read` gives the conversation that was skimmed, for the first of its kind.
    pub fn render(
        &mut self,
        skim: &Skim,
        read: impl FnOnce() -> Option<Conversation>,
        text: &mut String,
        spans: &mut Vec<Range<usize>>,
    ) -> bool {
        self.replay(skim, text, spans).unwrap_or_else(|| {
            let learned = self.learn(skim, read, |_| {});
            learned && self.replay(skim, text, spans) == Some(true)
        })
    }

    /// Why the last conversation was left to the interpreter.
    pub(super) fn refused(&self) -> &'static str {
        self.refused
    }

    /// Runs the program that serves a conversation; nothing if there is none yet.
    pub(super) fn replay(
        &mut self,
        skim: &Skim,
        text: &mut String,
        spans: &mut Vec<Range<usize>>,
    ) -> Option<bool> {
        text.clear();
        spans.clear();
        let programs = match self.known.get(skim.outline())? {
            Known::Programs(programs) => programs,
            Known::Interpreted(reason) => {
                self.refused = reason;
                return Some(false);
            }
        };
        if skim.decoded().len() > LONGEST {
            return Some(false);
        }
        let serves =
            |program: &&Program| program.serves(skim.decoded(), skim.ranges(), &mut self.bench);
        let program = programs.iter().find(serves)?;
        program.print(skim.decoded(), &mut self.bench, text, spans);
        if !self.spans {
            spans.clear();
        }
        if !self.spans || self.template.generates {
            return Some(true);
        }
        self.places.clear();
        places(program, skim, &self.bench, &mut self.places);
        let found = derived(self.template, skim, text, &self.places);
        if let Some(found) = found {
            *spans = found;
            return Some(true);
        }
        self.refused = "turns that are found by rendering prefixes";
        Some(false)
    }

    /// Interprets a conversation and keeps what was traced; `spoil` may change that. Whether it can be replayed now.
    pub(super) fn learn(
        &mut self,
        skim: &Skim,
        read: impl FnOnce() -> Option<Conversation>,
        spoil: impl FnOnce(&mut Program),
    ) -> bool {
        let full = matches!(
            self.known.get(skim.outline()),
            Some(Known::Programs(programs)) if programs.len() == MOST_PROGRAMS
        );
        if full || self.pieces > MOST_PIECES || skim.decoded().len() > LONGEST {
            self.refused = "too many kinds of conversations";
            return false;
        }
        let Some(traced) = read().and_then(|conversation| self.trace(skim, &conversation)) else {
            // The interpreter will say what is wrong.
            return false;
        };
        let known = self.known.entry(skim.outline().into());
        match traced {
            Ok(mut program) => {
                spoil(&mut program);
                self.pieces += program.size();
                match known.or_insert_with(|| Known::Programs(Vec::new())) {
                    Known::Programs(programs) => programs.push(program),
                    Known::Interpreted(_) => return false,
                }
                true
            }
            Err(reason) => {
                self.refused = reason;
                known.insert_entry(Known::Interpreted(reason));
                false
            }
        }
    }

    /// What the interpreter does with a conversation, if that can be replayed; nothing if it fails.
    fn trace(
        &self,
        skim: &Skim,
        conversation: &Conversation,
    ) -> Option<Result<Program, &'static str>> {
        let template = self.template;
        template.check(conversation).ok()?;
        if conversation.tools.is_some() || !conversation.template_kwargs.is_empty() {
            return None;
        }
        let messages = prepare(conversation);
        let texts = skim.places().map(|(message, key)| match messages.get(message)?.get(key)? {
            Json::String(text) => Some(&**text),
            _ => None,
        });
        let texts: Vec<&str> = texts.collect::<Option<_>>()?;
        let decoded = skim.ranges().iter().map(|range| &skim.decoded()[range.clone()]);
        if messages.len() != skim.roles().len() || !decoded.eq(texts.iter().copied()) {
            return None;
        }
        let mut trace = Trace::new(texts);
        template.interpret(&messages, conversation, None, Some(&mut trace))?.ok()?;
        let program = trace.finish();
        if !self.spans || template.generates {
            return Some(program);
        }
        Some(program.and_then(|program| match derive::learned(template, conversation) {
            None => Err("turns whose header cannot be learned"),
            Some(_) if !program.is_blind_to_marks() => Err("turns around texts that are cut"),
            Some(_) => Ok(program),
        }))
    }
}

/// Appends where the marks of the messages would be printed.
fn places(program: &Program, skim: &Skim, bench: &Bench, places: &mut Vec<(usize, usize)>) {
    program.places(skim.decoded(), bench, |text, range| {
        if let Some((message, key)) = skim.places().nth(text)
            && MARKED.contains(&key)
        {
            places.extend([(message, range.start), (message, range.end)]);
        }
    });
}

/// What the assistant wrote of `text`, as the interpreter's marks would show it.
fn derived(
    template: &ChatTemplate,
    skim: &Skim,
    text: &str,
    places: &[(usize, usize)],
) -> Option<Vec<Range<usize>>> {
    let said = |role| Said { by_assistant: is_assistant(role), calls: false };
    let messages: Vec<Said> = skim.roles().map(said).collect();
    if !messages.iter().any(|message| message.by_assistant) {
        return Some(Vec::new());
    }
    if has_marks(text) {
        return None;
    }
    let turn = template.turn.get()?.as_ref()?;
    derive::from_places(template, turn, text, &messages, places)
}
