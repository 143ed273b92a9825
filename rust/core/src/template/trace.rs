//! [`Trace`]: what a run of the interpreter did with the texts of one conversation, so that others need no run.
//!
//! Conversations of one [outline](crate::record::Skim::outline) differ in their texts alone. So whatever a template
//! does with anything else comes out alike for all of them, and what it does with the texts is written down here:
//! where they are printed, how they were cut before, and each question about them with its answer. The interpreter
//! runs as always, over real texts; a trace only looks on, and stops at the first use of a text that is not among
//! these. Texts are told apart by where they lie in memory, and every text that is made of one is a new string.

use std::collections::HashMap;
use std::rc::Rc;

use super::ast::{Binary, Comparison};
use super::filters::Filter;
use super::given::Given;
use super::methods::Method;
use super::predicates::Predicate;
use super::print::write_str;
use super::replay::{Cut, Piece, Program, Question, Step};
use super::value::{Dict, List, Text, Value};

/// What is written down while a template runs.
pub(super) struct Trace<'r> {
    /// The texts of the conversation by address and length, which no two of them share.
    texts: HashMap<(usize, usize), usize>,
    /// The strings that were made of them, which are held so that no other gets the address.
    made: HashMap<usize, (Rc<str>, Origin)>,
    /// The lists that they were split into: the cut that was split, and the separator.
    split: HashMap<usize, (Value<'r>, usize, Rc<str>)>,
    steps: Vec<Step>,
    cuts: usize,
    printed: Vec<Piece>,
    /// What nothing is known for.
    stopped: Option<&'static str>,
}

/// What a string is made of.
#[derive(Clone)]
enum Origin {
    Pieces(Rc<[Piece]>),
    /// A part of a text that no cut is known for.
    Part,
}

impl<'r> Trace<'r> {
    /// Looks on while a conversation of these texts is rendered.
    pub(super) fn new<'t>(texts: impl IntoIterator<Item = &'t str>) -> Self {
        Self {
            texts: texts.into_iter().enumerate().map(|(at, text)| (place(text), at)).collect(),
            made: HashMap::new(),
            split: HashMap::new(),
            steps: Vec::new(),
            cuts: 0,
            printed: Vec::new(),
            stopped: None,
        }
    }

    /// What does the same to other texts; or what stopped the trace.
    pub(super) fn finish(self) -> Result<Program, &'static str> {
        match self.stopped {
            None => Ok(Program::new(self.steps, self.printed)),
            Some(reason) => Err(reason),
        }
    }

    fn stop(&mut self, reason: &'static str) {
        self.stopped.get_or_insert(reason);
    }

    /// The number of a cut, which is new or known.
    fn cut(&mut self, cut: Cut) -> usize {
        let mut cuts = self.steps.iter().filter_map(|step| match step {
            Step::Cut(known) => Some(known),
            Step::Ask(..) => None,
        });
        if let Some(at) = cuts.position(|known| *known == cut) {
            return at;
        }
        self.steps.push(Step::Cut(cut));
        self.cuts += 1;
        self.cuts - 1
    }

    fn ask(&mut self, question: Question, answer: bool) {
        let step = Step::Ask(question, answer);
        if !self.steps.contains(&step) {
            self.steps.push(step);
        }
    }

    /// What a text is made of; nothing if no text of the conversation is in it.
    fn origin(&mut self, text: &Text<'r>) -> Option<Origin> {
        match text {
            Text::Borrowed(text) => {
                if let Some(at) = self.texts.get(&place(text)).copied() {
                    let whole = self.cut(Cut::Whole(at));
                    return Some(Origin::Pieces([Piece::Cut(whole)].into()));
                }
                let (from, _) = place(text);
                let inside =
                    |(start, size): &(usize, usize)| (*start..start + size).contains(&from);
                self.texts.keys().any(inside).then_some(Origin::Part)
            }
            Text::Computed(text) => self.made.get(&place(text).0).map(|(_, origin)| origin.clone()),
        }
    }

    /// Whether a text of the conversation is, or may be, in a value.
    fn holds(&mut self, value: &Value<'r>) -> bool {
        match value {
            Value::String(text) | Value::Safe(text) => self.origin(text).is_some(),
            Value::List(List::Computed(items)) | Value::Tuple(items) => {
                items.iter().any(|item| self.holds(item))
            }
            Value::Dict(Dict::Computed(items)) => items.values().any(|item| self.holds(item)),
            Value::Method(_, receiver) => self.holds(receiver),
            Value::List(List::Data(_))
            | Value::Dict(Dict::Data(_))
            | Value::View(..)
            | Value::Generator(_)
            | Value::Namespace(_)
            | Value::Loop(_) => true,
            _ => false,
        }
    }

    /// What a string that holds a text is made of; nothing for any other value.
    fn pieces(&mut self, value: &Value<'r>) -> Option<Rc<[Piece]>> {
        let Value::String(text) = value else { return None };
        match self.origin(text)? {
            Origin::Pieces(pieces) => Some(pieces),
            Origin::Part => {
                self.stop("a part of a text");
                None
            }
        }
    }

    /// The cut that a value is, and is alone.
    fn single(&mut self, value: &Value<'r>) -> Option<usize> {
        match *self.pieces(value)? {
            [Piece::Cut(cut)] => Some(cut),
            _ => None,
        }
    }

    /// A string that holds no text.
    fn known(&mut self, value: &Value<'r>) -> Option<Rc<str>> {
        match value {
            Value::String(text) if self.origin(text).is_none() => Some(Rc::from(&**text)),
            _ => None,
        }
    }

    /// Appends what a value prints.
    fn append(&mut self, value: &Value<'r>, to: &mut Vec<Piece>) {
        if let Some(pieces) = self.pieces(value) {
            to.extend(pieces.iter().cloned());
        } else if self.holds(value) {
            self.stop("printing what is no text");
        } else {
            let mut printed = String::new();
            if write_str(&mut printed, value).is_err() {
                self.stop("printing what cannot be");
            }
            to.push(Piece::Literal(printed.into()));
        }
    }

    /// A string of its own that is made of these pieces.
    fn string(&mut self, value: &Value<'r>, pieces: Vec<Piece>) -> Value<'r> {
        let Some(text) = value.as_text() else { return value.clone() };
        if pieces.iter().any(|piece| matches!(piece, Piece::Begin | Piece::End)) {
            self.stop("a generation block whose text is a value");
        }
        let text: Rc<str> = Rc::from(&**text);
        if pieces.iter().any(|piece| matches!(piece, Piece::Cut(_))) {
            let origin = Origin::Pieces(pieces.into());
            self.made.insert(place(&text).0, (Rc::clone(&text), origin));
        }
        Value::String(Text::Computed(text))
    }

    /// A cut as a string of its own.
    fn cut_out(&mut self, value: &Value<'r>, cut: Cut) -> Value<'r> {
        let cut = self.cut(cut);
        self.string(value, vec![Piece::Cut(cut)])
    }

    /// Text between tags.
    pub(super) fn literal(&mut self, text: &str) {
        self.printed.push(Piece::Literal(text.into()));
    }

    /// `{{ value }}`
    pub(super) fn print(&mut self, value: &Value<'r>) {
        let mut printed = std::mem::take(&mut self.printed);
        self.append(value, &mut printed);
        self.printed = printed;
    }

    /// The beginning of a generation block.
    pub(super) fn begin(&mut self) {
        self.printed.push(Piece::Begin);
    }

    /// Its end.
    pub(super) fn end(&mut self) {
        self.printed.push(Piece::End);
    }

    /// From here on, what is printed is wanted as a value; returns what was printed before.
    pub(super) fn divert(&mut self) -> Vec<Piece> {
        std::mem::take(&mut self.printed)
    }

    /// Goes on after what was printed before; `value` is what was printed since.
    pub(super) fn captured(&mut self, before: Vec<Piece>, value: &Value<'r>) -> Value<'r> {
        let pieces = std::mem::replace(&mut self.printed, before);
        self.string(value, pieces)
    }

    /// Whether a value is true was asked.
    pub(super) fn truth(&mut self, value: &Value<'r>, truth: bool) {
        if !matches!(value, Value::String(_) | Value::Safe(_)) || !self.holds(value) {
            return;
        }
        let Some(pieces) = self.pieces(value) else {
            return self.stop("whether a text is true");
        };
        let speaks = |piece: &Piece| matches!(piece, Piece::Literal(text) if !text.is_empty());
        match (self.single(value), pieces.iter().any(speaks)) {
            (Some(cut), _) => self.ask(Question::Empty(cut), !truth),
            (None, true) => {}
            (None, false) => self.stop("whether several texts are true"),
        }
    }

    /// `left operator right`
    pub(super) fn binary(
        &mut self,
        operator: Binary,
        left: &Value<'r>,
        right: &Value<'r>,
        made: Value<'r>,
    ) -> Value<'r> {
        if !self.holds(left) && !self.holds(right) {
            return made;
        }
        match (operator, &made) {
            (Binary::Add, Value::String(_)) => self.concat(&[left.clone(), right.clone()], made),
            (Binary::Add, Value::List(_) | Value::Tuple(_)) => made,
            _ => {
                self.stop("an operator between texts");
                made
            }
        }
    }

    /// `a ~ b`
    pub(super) fn concat(&mut self, parts: &[Value<'r>], made: Value<'r>) -> Value<'r> {
        if !parts.iter().any(|part| self.holds(part)) {
            return made;
        }
        let mut pieces = Vec::new();
        for part in parts {
            self.append(part, &mut pieces);
        }
        self.string(&made, pieces)
    }

    /// `left comparison right`
    pub(super) fn compare(
        &mut self,
        comparison: Comparison,
        left: &Value<'r>,
        right: &Value<'r>,
        outcome: bool,
    ) {
        if !self.holds(left) && !self.holds(right) {
            return;
        }
        let plain = |value: &Value<'r>| {
            matches!(
                value,
                Value::Undefined | Value::None | Value::Bool(_) | Value::Int(_) | Value::Float(_)
            )
        };
        match comparison {
            // What is of another type is never equal.
            Comparison::Equal | Comparison::NotEqual if plain(left) || plain(right) => {}
            Comparison::Equal | Comparison::NotEqual => {
                let equal = outcome == (comparison == Comparison::Equal);
                let sides = match (self.single(left), self.single(right)) {
                    (Some(cut), None) => self.known(right).map(|text| (cut, text)),
                    (None, Some(cut)) => self.known(left).map(|text| (cut, text)),
                    _ => None,
                };
                match sides {
                    Some((cut, text)) => self.ask(Question::Equals(cut, text), equal),
                    None => self.stop("comparing texts"),
                }
            }
            Comparison::In | Comparison::NotIn => {
                let inside = outcome == (comparison == Comparison::In);
                match (self.known(left), right, self.single(right)) {
                    (Some(_), Value::Dict(_), _) => {}
                    (Some(text), _, Some(cut)) => self.ask(Question::Contains(cut, text), inside),
                    _ => self.stop("`in` with texts"),
                }
            }
            _ => self.stop("ordering texts"),
        }
    }

    /// `value[index]`
    pub(super) fn item(
        &mut self,
        value: &Value<'r>,
        index: &Value<'r>,
        made: Value<'r>,
    ) -> Value<'r> {
        if self.holds(index) || self.pieces(value).is_some() && index.as_text().is_none() {
            self.stop("an item of a text");
        }
        match index {
            Value::Int(0) => self.part(value, true, made),
            Value::Int(-1) => self.part(value, false, made),
            _ => made,
        }
    }

    /// The first or last item of a list, which may be that of a text that was split.
    fn part(&mut self, value: &Value<'r>, first: bool, made: Value<'r>) -> Value<'r> {
        let Value::List(List::Computed(list)) = value else { return made };
        let Some((_, of, separator)) = self.split.get(&Rc::as_ptr(list).addr()) else {
            return made;
        };
        let (of, separator) = (*of, Rc::clone(separator));
        let cut = if first { Cut::First { of, separator } } else { Cut::Last { of, separator } };
        self.cut_out(&made, cut)
    }

    /// `value[a:b]`, or what else looks into a value as a list: loops and targets.
    pub(super) fn items(&mut self, value: &Value<'r>) {
        if matches!(value, Value::String(_) | Value::Safe(_)) && self.holds(value) {
            self.stop("the characters of a text");
        }
    }

    /// A value that decides what others are like.
    pub(super) fn plain(&mut self, value: &Value<'r>) {
        if self.holds(value) {
            self.stop("a text as an argument");
        }
    }

    /// `value is test(…)`
    pub(super) fn test(
        &mut self,
        test: Predicate,
        value: &Value<'r>,
        arguments: &[Value<'r>],
        outcome: bool,
    ) {
        match (test, arguments) {
            (Predicate::Compare(comparison), [other]) => {
                self.compare(comparison, value, other, outcome);
            }
            (Predicate::In, [other]) => self.compare(Comparison::In, value, other, outcome),
            // The others look at types alone.
            (_, arguments) => arguments.iter().for_each(|argument| self.plain(argument)),
        }
    }

    /// `value|filter(…)`
    pub(super) fn filter(
        &mut self,
        filter: Filter,
        value: &Value<'r>,
        given: &Given<'r>,
        made: Value<'r>,
    ) -> Value<'r> {
        let arguments = given.positional.iter().chain(given.named.iter().map(|(_, value)| value));
        if filter != Filter::Default && arguments.clone().any(|argument| self.holds(argument)) {
            self.stop("a text as an argument of a filter");
        }
        if !self.holds(value) {
            return made;
        }
        let by_role = |name: &Value<'r>| name.as_text().is_some_and(|name| **name == *"role");
        let is_text = matches!(value, Value::String(_) | Value::Safe(_));
        match filter {
            Filter::Trim if is_text => self.trim(value, arguments.last(), (true, true), made),
            Filter::Default => {
                if arguments.count() > 1 {
                    self.truth(value, value.is_true());
                }
                made
            }
            Filter::String if is_text => made,
            Filter::First => self.part(value, true, made),
            Filter::Last => self.part(value, false, made),
            Filter::Length | Filter::List | Filter::Reverse | Filter::Items if !is_text => made,
            Filter::SelectAttribute | Filter::RejectAttribute
                if given.positional.first().is_some_and(by_role) =>
            {
                made
            }
            Filter::Map
                if given.positional.is_empty()
                    && given
                        .named
                        .iter()
                        .any(|(name, value)| *name == "attribute" && by_role(value)) =>
            {
                made
            }
            _ => {
                self.stop("a filter of texts");
                made
            }
        }
    }

    fn trim(
        &mut self,
        value: &Value<'r>,
        chars: Option<&Value<'r>>,
        (left, right): (bool, bool),
        made: Value<'r>,
    ) -> Value<'r> {
        let chars = match chars {
            None | Some(Value::None) => Some(None),
            Some(chars) => self.known(chars).map(Some),
        };
        if let (Some(of), Some(chars)) = (self.single(value), chars) {
            return self.cut_out(&made, Cut::Trim { of, chars, left, right });
        }
        self.stop("trimming what is no single text");
        made
    }

    /// `receiver.method(…)`
    pub(super) fn method(
        &mut self,
        method: Method,
        receiver: &Value<'r>,
        given: &Given<'r>,
        made: Value<'r>,
    ) -> Value<'r> {
        if let Value::Dict(_) = receiver {
            given.positional.first().iter().for_each(|key| self.plain(key));
            return made;
        }
        let arguments = given.positional.iter().chain(given.named.iter().map(|(_, value)| value));
        let mut arguments = arguments.collect::<Vec<_>>().into_iter();
        if arguments.clone().any(|argument| self.holds(argument)) {
            self.stop("a text as an argument of a method");
        }
        if !self.holds(receiver) {
            return made;
        }
        let (count, argument) = (arguments.len(), arguments.next());
        let known = argument.and_then(|argument| self.known(argument));
        match (method, self.single(receiver), known, count) {
            (Method::Strip, _, _, 0 | 1) => self.trim(receiver, argument, (true, true), made),
            (Method::LeftStrip, _, _, 0 | 1) => self.trim(receiver, argument, (true, false), made),
            (Method::RightStrip, _, _, 0 | 1) => self.trim(receiver, argument, (false, true), made),
            (Method::StartsWith, Some(cut), Some(text), 1) => {
                self.ask(Question::StartsWith(cut, text), made.is_true());
                made
            }
            (Method::EndsWith, Some(cut), Some(text), 1) => {
                self.ask(Question::EndsWith(cut, text), made.is_true());
                made
            }
            (Method::Split, Some(of), Some(separator), 1) => self.parts(of, separator, &made),
            _ => {
                self.stop("a method of texts");
                made
            }
        }
    }

    /// A list of what a text was split into, of which the ends alone can be used.
    fn parts(&mut self, of: usize, separator: Rc<str>, made: &Value<'r>) -> Value<'r> {
        let Value::List(list) = made else { return made.clone() };
        let parts = list.iter().map(|part| {
            let text: Rc<str> = Rc::from(part.as_text().map_or("", |text| text));
            self.made.insert(place(&text).0, (Rc::clone(&text), Origin::Part));
            Value::String(Text::Computed(text))
        });
        let parts = Value::list(parts.collect());
        if let Value::List(List::Computed(list)) = &parts {
            self.split.insert(Rc::as_ptr(list).addr(), (parts.clone(), of, separator));
        }
        parts
    }
}

/// Where a text lies in memory.
fn place(text: &str) -> (usize, usize) {
    (text.as_ptr().addr(), text.len())
}
