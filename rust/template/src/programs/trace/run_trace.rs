//! [`Trace`]: the recording of a run, and the program that it becomes.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::addresses::{address, place, walk};
use crate::json::{Json, Map};
use crate::programs::program::Program;
use crate::programs::steps::{Guard, OutputPiece, ProgramStep};
use crate::render_limits::{Allowance, Meter};
use crate::values::texts::text::Text;
use crate::values::value::Value;

/// Bytes of the longest text that a guard may pin. Such a text is a word, which other conversations may have
/// as well.
pub(super) const LONGEST_WORD: usize = 64;

/// Bytes of the strings that a trace may hold: far more than the few conversations have that are traced.
pub(super) const MOST_HELD: usize = 1 << 24;

/// Steps, texts and values that a trace may search before it stops. For each new one it searches all earlier
/// ones, which for some thousand messages would take longer than replays save.
const MOST_LOOKED_AT: usize = 1 << 24;

/// The texts and values in which conversations of one outline differ.
#[derive(Debug, Default)]
pub struct TraceInput<'r> {
    /// The texts of the messages.
    pub texts: Vec<&'r str>,
    /// The values that are no texts: those of messages, and the tools.
    pub values: Vec<&'r Json>,
    /// The messages as the template sees them, each with the keys of its values and their numbers.
    pub messages: Vec<(&'r Map, Vec<(&'r str, usize)>)>,
}

/// The recorded run of a template.
pub struct Trace<'r> {
    /// The texts of the conversation by address and length, which no two of them share.
    pub(super) texts: HashMap<(usize, usize), Leaf>,
    /// The strings that were computed of them, by address. They are held so that no other string gets the
    /// address.
    pub(super) computed: HashMap<usize, (Text<'r>, StringOrigin)>,
    /// The lists that they were split into, by address: the list, the cut that was split, and the separator.
    pub(super) split: HashMap<usize, (Value<'r>, usize, Rc<str>)>,
    /// The values of the record, in the order of their numbers.
    pub(super) nodes: Vec<&'r Json>,
    /// The numbers of lists and objects among the values, by address.
    pub(super) containers: HashMap<usize, usize>,
    /// The addresses of all strings, lists and objects in values that no guard pins.
    pub(super) inside: HashSet<usize>,
    /// The messages by address: the keys of their values, and the numbers.
    pub(super) messages: HashMap<usize, Vec<(&'r str, usize)>>,
    pub(super) steps: Vec<ProgramStep>,
    cuts: usize,
    pub(super) printed: Vec<OutputPiece>,
    /// The reason that the trace stopped, if it has.
    stopped: Option<&'static str>,
    /// Bytes of the strings in `computed`.
    pub(super) held: usize,
    /// The number of steps, texts and values searched so far.
    looked_at: usize,
    /// Counts the own prints and comparisons of the trace, with the limits of a trial.
    pub(super) meter: Meter<'static>,
}

/// The source of a text of the conversation.
#[derive(Clone, Copy)]
pub(super) enum Leaf {
    /// One of the texts, by its number.
    Text(usize),
    /// A value, by its number.
    Node(usize),
}

/// The origin of a string: the pieces that it consists of, if they are known.
#[derive(Clone)]
pub(super) enum StringOrigin {
    Pieces(Rc<[OutputPiece]>),
    /// A part of a text that no cut is known for.
    Part,
}

impl std::fmt::Debug for Trace<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace").field("steps", &self.steps).finish_non_exhaustive()
    }
}

impl<'r> Trace<'r> {
    /// A trace for the render of a conversation.
    pub fn new(input: TraceInput<'r>) -> Self {
        let texts = input.texts.into_iter().enumerate();
        let messages = input.messages.into_iter();
        let mut trace = Self {
            texts: texts.map(|(at, text)| (place(text), Leaf::Text(at))).collect(),
            computed: HashMap::new(),
            split: HashMap::new(),
            nodes: Vec::new(),
            containers: HashMap::new(),
            inside: HashSet::new(),
            messages: messages
                .map(|(map, values)| (std::ptr::from_ref(map).addr(), values))
                .collect(),
            steps: Vec::new(),
            cuts: 0,
            printed: Vec::new(),
            stopped: None,
            held: 0,
            looked_at: 0,
            meter: Meter::new(Allowance::TRIAL, &|| MOST_HELD, None),
        };
        for value in input.values {
            walk(value, &mut |address| {
                trace.inside.insert(address);
            });
            trace.push_node(value);
        }
        trace
    }

    /// The recorded program, or the reason that the trace stopped.
    pub fn finish(self) -> Result<Program, &'static str> {
        match self.stopped {
            None => Ok(Program::new(self.steps, self.printed)),
            Some(reason) => Err(reason),
        }
    }

    /// Stops the trace, unless it has stopped before.
    pub(crate) fn stop(&mut self, reason: &'static str) {
        self.stopped.get_or_insert(reason);
    }

    /// True if the trace has stopped and records nothing more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// The number of pieces of the output so far, or of the capture that is running.
    pub(crate) fn pieces_printed(&self) -> usize {
        self.printed.len()
    }

    /// Counts searched entries. Returns whether the trace goes on.
    pub(super) fn looks_at(&mut self, count: usize) -> bool {
        self.looked_at += count;
        if self.looked_at > MOST_LOOKED_AT {
            self.stop("too much is done with too many texts");
        }
        !self.is_stopped()
    }

    /// The number of the cut that a step adds. An equal earlier step is used again.
    pub(super) fn cut(&mut self, step: ProgramStep) -> usize {
        self.looks_at(self.steps.len());
        let mut cuts = self.steps.iter().filter(|step| step.cuts());
        if let Some(at) = cuts.position(|known| *known == step) {
            return at;
        }
        self.steps.push(step);
        self.cuts += 1;
        self.cuts - 1
    }

    pub(super) fn add_guard(&mut self, guard: Guard, answer: bool) {
        let step = ProgramStep::Check(guard, answer);
        self.looks_at(self.steps.len());
        if !self.steps.contains(&step) {
            self.steps.push(step);
        }
    }

    /// Adds a value of the record under the next number.
    pub(super) fn push_node(&mut self, value: &'r Json) {
        let number = self.nodes.len();
        self.nodes.push(value);
        match value {
            Json::String(text) => {
                self.texts.insert(place(text), Leaf::Node(number));
            }
            Json::List(_) | Json::Map(_) => {
                self.containers.extend(address(value).map(|address| (address, number)));
            }
            _ => {}
        }
    }
}
