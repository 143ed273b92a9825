//! [`Trace`]: records a run of the interpreter over one conversation as a program for others.
//!
//! Conversations of one structure (the same keys and roles) differ only in their texts, and in the values
//! that are no texts. What a template does with anything else is the same for all of them. A trace records
//! what the template does with texts and values: where they are printed, what was computed of them before,
//! and each condition on them with its outcome (a guard). The interpreter runs as always, over a real
//! conversation, and reports to the trace ([`hooks`], [`functions`]). The trace stops at the first use of a
//! text that it cannot follow. For a use of a value that it cannot follow, it adds a guard on the whole
//! value: the program serves conversations with the same value.
//!
//! Texts and values are identified by their addresses, and every text that is computed of one is a new
//! string.

mod functions;
mod hooks;
mod messages;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use crate::json::{Json, Map};
use crate::programs::operation::{Operation, OperationFunction};
use crate::programs::program::Program;
use crate::programs::steps::{
    Cut, Guard, KeyOrIndex, Operand, OutputPiece, ProgramStep, ValueKind,
};
use crate::render_limits::{Allowance, HeldMemory, Meter};
use crate::values::printing::print::write_str;
use crate::values::texts::text::Text;
use crate::values::value::{Dict, List, Value};

/// Bytes of the longest text that a guard may pin. Such a text is a word, which other conversations may have
/// as well.
const LONGEST_WORD: usize = 64;

/// Bytes of the strings that a trace may hold: far more than the few conversations have that are traced.
const MOST_HELD: usize = 1 << 24;

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
    texts: HashMap<(usize, usize), Leaf>,
    /// The strings that were computed of them, by address. They are held so that no other string gets the
    /// address.
    computed: HashMap<usize, (Text<'r>, StringOrigin)>,
    /// The lists that they were split into, by address: the list, the cut that was split, and the separator.
    split: HashMap<usize, (Value<'r>, usize, Rc<str>)>,
    /// The values of the record, in the order of their numbers.
    nodes: Vec<&'r Json>,
    /// The numbers of those that are lists and objects, by address.
    containers: HashMap<usize, usize>,
    /// The addresses of all strings, lists and objects in values that no guard pins.
    inside: HashSet<usize>,
    /// The messages by address: the keys of their values, and the numbers.
    messages: HashMap<usize, Vec<(&'r str, usize)>>,
    steps: Vec<ProgramStep>,
    cuts: usize,
    printed: Vec<OutputPiece>,
    /// The reason that the trace stopped, if it has.
    stopped: Option<&'static str>,
    /// Bytes of the strings in `computed`.
    held: usize,
    /// The number of steps, texts and values searched so far.
    looked_at: usize,
    /// Counts the own prints and comparisons of the trace, with the limits of a trial.
    meter: Meter<'static>,
}

/// The source of a text of the conversation.
#[derive(Clone, Copy)]
enum Leaf {
    /// One of the texts, by its number.
    Text(usize),
    /// A value, by its number.
    Node(usize),
}

/// The origin of a string: the pieces that it consists of, if they are known.
#[derive(Clone)]
enum StringOrigin {
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
    fn looks_at(&mut self, count: usize) -> bool {
        self.looked_at += count;
        if self.looked_at > MOST_LOOKED_AT {
            self.stop("too much is done with too many texts");
        }
        !self.is_stopped()
    }

    /// The number of the cut that a step adds. An equal earlier step is used again.
    fn cut(&mut self, step: ProgramStep) -> usize {
        self.looks_at(self.steps.len());
        let mut cuts = self.steps.iter().filter(|step| step.cuts());
        if let Some(at) = cuts.position(|known| *known == step) {
            return at;
        }
        self.steps.push(step);
        self.cuts += 1;
        self.cuts - 1
    }

    fn add_guard(&mut self, guard: Guard, answer: bool) {
        let step = ProgramStep::Check(guard, answer);
        self.looks_at(self.steps.len());
        if !self.steps.contains(&step) {
            self.steps.push(step);
        }
    }

    /// Adds a value of the record under the next number.
    fn push_node(&mut self, value: &'r Json) {
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

    /// The number of a list or an object of the record.
    fn node(&self, value: &Value<'r>) -> Option<usize> {
        self.containers.get(&address_of(value)?).copied()
    }

    /// Records the lookup of a place in a value of the record.
    fn look(&mut self, of: usize, at: KeyOrIndex) {
        let there = match (self.nodes[of], &at) {
            (Json::Map(map), KeyOrIndex::Key(key)) => map.get(&**key),
            (Json::List(items), KeyOrIndex::Index(index)) => items.get(*index),
            _ => None,
        };
        let found = ValueKind::of(there);
        let is_node = found.is_node();
        let step = ProgramStep::Look { of, at, found };
        self.looks_at(self.steps.len());
        if self.steps.contains(&step) {
            return;
        }
        self.steps.push(step);
        if let Some(value) = there.filter(|_| is_node) {
            self.push_node(value);
        }
    }

    /// Adds a guard on the keys, or the number of items, of a value of the record. With `values`, also
    /// records the lookup of each of them.
    fn look_at_all(&mut self, of: usize, values: bool) {
        match self.nodes[of] {
            Json::List(items) => {
                self.add_guard(Guard::Items(of, items.len()), true);
                if values {
                    (0..items.len()).for_each(|index| self.look(of, KeyOrIndex::Index(index)));
                }
            }
            Json::Map(map) => {
                let keys: Rc<[Rc<str>]> = map.keys().map(|key| Rc::from(&**key)).collect();
                self.add_guard(Guard::Keys(of, Rc::clone(&keys)), true);
                if values {
                    keys.iter().for_each(|key| self.look(of, KeyOrIndex::Key(Rc::clone(key))));
                }
            }
            _ => {}
        }
    }

    /// Adds a guard that a value of the record is the same, so that every use of it has the same outcome.
    fn pin(&mut self, node: usize) {
        let value = self.nodes[node];
        self.add_guard(Guard::Same(node, value.clone()), true);
        walk(value, &mut |address| {
            self.inside.remove(&address);
            self.containers.remove(&address);
        });
        let inside = &self.inside;
        self.texts
            .retain(|(address, _), leaf| matches!(leaf, Leaf::Text(_)) || inside.contains(address));
    }

    /// Adds a guard that a value is the same, if it is a list or an object of the record, or a word.
    /// Otherwise the trace stops.
    fn plain(&mut self, value: &Value<'r>, reason: &'static str) {
        if !self.holds(value) {
            return;
        }
        if let Some(node) = self.node(value) {
            self.pin(node);
        } else if let (Some(text), Some(cut)) = (value.as_text().cloned(), self.register(value))
            && text.len() <= LONGEST_WORD
        {
            self.add_guard(Guard::Equals(cut, Rc::from(&*text)), true);
        } else {
            self.stop(reason);
        }
    }

    /// The origin of a text; `None` if no text of the conversation is in it.
    fn origin(&mut self, text: &Text<'r>) -> Option<StringOrigin> {
        match text {
            Text::Borrowed(text) => {
                if let Some(leaf) = self.texts.get(&place(text)).copied() {
                    let whole = self.cut(match leaf {
                        Leaf::Text(at) => ProgramStep::Cut(Cut::Whole(at)),
                        Leaf::Node(node) => ProgramStep::Read(node),
                    });
                    return Some(StringOrigin::Pieces([OutputPiece::Cut(whole)].into()));
                }
                self.looks_at(self.texts.len());
                let (from, _) = place(text);
                let within =
                    |(start, size): &(usize, usize)| (*start..start + size).contains(&from);
                let part = self.inside.contains(&from) || self.texts.keys().any(within);
                part.then_some(StringOrigin::Part)
            }
            Text::Computed(text) => {
                self.computed.get(&Rc::as_ptr(text).addr()).map(|(_, origin)| origin.clone())
            }
        }
    }

    /// True if a value contains, or may contain, a text or a value of the conversation.
    fn holds(&mut self, value: &Value<'r>) -> bool {
        // After the trace has stopped the answer does not matter, and the value may be too large to be
        // searched.
        if !self.looks_at(1) {
            return true;
        }
        match value {
            Value::String(text) | Value::Safe(text) => self.origin(text).is_some(),
            Value::List(List::Computed(items)) | Value::Tuple(items) => {
                items.iter().any(|item| self.holds(item))
            }
            Value::Dict(Dict::Computed(items)) => items.values().any(|item| self.holds(item)),
            Value::Method(_, receiver) => self.holds(receiver),
            Value::View(_, dict) => self.holds(&Value::Dict(dict.clone())),
            Value::List(List::Data(_)) | Value::Dict(Dict::Data(_)) => address_of(value)
                .is_some_and(|address| {
                    self.inside.contains(&address) || self.messages.contains_key(&address)
                }),
            Value::Generator(_) => self.holds(&value.unspent()),
            Value::Namespace(_) | Value::Loop(_) => true,
            _ => false,
        }
    }

    /// The pieces of a string that contains a text of the conversation; `None` for any other value.
    fn pieces(&mut self, value: &Value<'r>) -> Option<Rc<[OutputPiece]>> {
        match self.origin(value.as_text()?)? {
            StringOrigin::Pieces(pieces) => Some(pieces),
            StringOrigin::Part => {
                self.stop("a part of a text");
                None
            }
        }
    }

    /// The number of the cut that a string is. Several pieces are joined to one cut.
    fn register(&mut self, value: &Value<'r>) -> Option<usize> {
        let pieces = self.pieces(value)?;
        match *pieces {
            [OutputPiece::Cut(cut)] => Some(cut),
            _ => Some(self.cut(ProgramStep::Join(pieces))),
        }
    }

    /// The operand of an operation: a string that contains a text, or a list or an object of the record.
    fn operand(&mut self, value: &Value<'r>) -> Option<Operand> {
        match value {
            Value::String(_) => self.register(value).map(Operand::Cut),
            _ => self.node(value).map(Operand::Node),
        }
    }

    /// Appends the pieces that print a value.
    fn append(&mut self, value: &Value<'r>, to: &mut Vec<OutputPiece>) {
        if let Some(pieces) = self.pieces(value) {
            to.extend(pieces.iter().cloned());
        } else if let Some(node) = self.node(value) {
            let print = Operation::bare(OperationFunction::Print);
            to.push(OutputPiece::Cut(self.cut(ProgramStep::Make(print, Operand::Node(node)))));
        } else if self.holds(value) {
            self.stop("printing what is no text");
        } else {
            let mut printed = String::new();
            if write_str(&mut printed, value, &self.meter).is_err() {
                self.stop("printing what cannot be");
            }
            to.push(OutputPiece::Literal(printed.into()));
        }
    }

    /// A new string that is known to consist of these pieces.
    fn string(&mut self, value: &Value<'r>, pieces: Vec<OutputPiece>) -> Value<'r> {
        let Some(text) = value.as_text() else { return value.clone() };
        if pieces.iter().any(|piece| matches!(piece, OutputPiece::Begin(_) | OutputPiece::End)) {
            self.stop("a generation block whose text is a value");
        }
        self.looks_at(pieces.len());
        if !pieces.iter().any(|piece| matches!(piece, OutputPiece::Cut(_))) {
            return Value::String(text.clone());
        }
        match self.own(text, StringOrigin::Pieces(pieces.into())) {
            Some(own) => Value::String(own),
            None => value.clone(),
        }
    }

    /// A new string of the same text, known by its address; `None` if the trace would hold too many bytes.
    fn own(&mut self, text: &str, origin: StringOrigin) -> Option<Text<'r>> {
        self.held += text.len();
        if self.held > MOST_HELD {
            self.stop("too much is made of the texts");
            return None;
        }
        let own = Text::computed(text.to_owned(), HeldMemory::default());
        self.remember(&own, origin);
        Some(own)
    }

    /// Records the origin of a computed string by its address: that of its `Rc`, because the bytes of all
    /// empty strings have one address.
    fn remember(&mut self, text: &Text<'r>, origin: StringOrigin) {
        if let Text::Computed(computed) = text {
            self.computed.insert(Rc::as_ptr(computed).addr(), (text.clone(), origin));
        }
    }

    /// A new string for the cut that a step adds.
    fn cut_out(&mut self, value: &Value<'r>, step: ProgramStep) -> Value<'r> {
        let cut = self.cut(step);
        self.string(value, vec![OutputPiece::Cut(cut)])
    }
}

/// The address and length of a text.
fn place(text: &str) -> (usize, usize) {
    (text.as_ptr().addr(), text.len())
}

/// The address of a list or an object; `None` for an empty list, because all of them are alike.
fn address(value: &Json) -> Option<usize> {
    match value {
        Json::List(items) => (!items.is_empty()).then(|| items.as_ptr().addr()),
        Json::Map(map) => Some(std::ptr::from_ref::<Map>(map).addr()),
        _ => None,
    }
}

/// The address of a list or an object of the record; `None` for any other value of a template.
fn address_of(value: &Value<'_>) -> Option<usize> {
    match value {
        Value::List(List::Data(items)) => (!items.is_empty()).then(|| items.as_ptr().addr()),
        Value::Dict(Dict::Data(map)) => Some(std::ptr::from_ref::<Map>(map).addr()),
        _ => None,
    }
}

/// Visits the addresses of a value, and of all strings, lists and objects in it.
fn walk(value: &Json, visit: &mut impl FnMut(usize)) {
    match value {
        Json::String(text) => visit(place(text).0),
        other => address(other).into_iter().for_each(&mut *visit),
    }
    match value {
        Json::List(items) => items.iter().for_each(|item| walk(item, visit)),
        Json::Map(map) => map.values().for_each(|item| walk(item, visit)),
        _ => {}
    }
}
