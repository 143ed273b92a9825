//! [`Trace::origin`]: the pieces of the record's texts that a string consists of.

use std::rc::Rc;

use super::addresses::{address_of, place};
use super::run_trace::{Leaf, MOST_HELD, StringOrigin, Trace};
use crate::programs::operation::{Operation, OperationFunction};
use crate::programs::steps::{Operand, OutputPiece, ProgramStep, TextRange};
use crate::render_limits::HeldMemory;
use crate::values::printing::print::write_str;
use crate::values::texts::text::Text;
use crate::values::value::{Dict, List, Value};

impl<'r> Trace<'r> {
    /// The origin of a text; `None` if no text of the conversation is in it.
    fn origin(&mut self, text: &Text<'r>) -> Option<StringOrigin> {
        match text {
            Text::Borrowed(text) => {
                if let Some(leaf) = self.texts.get(&place(text)).copied() {
                    let whole = self.cut(match leaf {
                        Leaf::Text(at) => ProgramStep::Cut(TextRange::Whole(at)),
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
    pub(super) fn holds(&mut self, value: &Value<'r>) -> bool {
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
    pub(super) fn pieces(&mut self, value: &Value<'r>) -> Option<Rc<[OutputPiece]>> {
        match self.origin(value.as_text()?)? {
            StringOrigin::Pieces(pieces) => Some(pieces),
            StringOrigin::Part => {
                self.stop("a part of a text");
                None
            }
        }
    }

    /// The number of the cut that a string is. Several pieces are joined to one cut.
    pub(super) fn register(&mut self, value: &Value<'r>) -> Option<usize> {
        let pieces = self.pieces(value)?;
        match *pieces {
            [OutputPiece::Cut(cut)] => Some(cut),
            _ => Some(self.cut(ProgramStep::Join(pieces))),
        }
    }

    /// The operand of an operation: a string that contains a text, or a list or an object of the record.
    pub(super) fn operand(&mut self, value: &Value<'r>) -> Option<Operand> {
        match value {
            Value::String(_) => self.register(value).map(Operand::Cut),
            _ => self.node(value).map(Operand::Node),
        }
    }

    /// Appends the pieces that print a value.
    pub(super) fn append(&mut self, value: &Value<'r>, to: &mut Vec<OutputPiece>) {
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
    pub(super) fn string(&mut self, value: &Value<'r>, pieces: Vec<OutputPiece>) -> Value<'r> {
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
    pub(super) fn own(&mut self, text: &str, origin: StringOrigin) -> Option<Text<'r>> {
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
    pub(super) fn remember(&mut self, text: &Text<'r>, origin: StringOrigin) {
        if let Text::Computed(computed) = text {
            self.computed.insert(Rc::as_ptr(computed).addr(), (text.clone(), origin));
        }
    }

    /// A new string for the cut that a step adds.
    pub(super) fn cut_out(&mut self, value: &Value<'r>, step: ProgramStep) -> Value<'r> {
        let cut = self.cut(step);
        self.string(value, vec![OutputPiece::Cut(cut)])
    }
}
