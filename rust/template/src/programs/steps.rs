//! The steps and pieces of a [program](crate::programs::program): cuts, operations, lookups, guards and
//! output.

use std::rc::Rc;

use crate::json::Json;
use crate::language::operators::ComparisonOperator;
use crate::programs::operation::Operation;

/// A text, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TextRange {
    /// A text of the conversation, by its number.
    Whole(usize),
    /// A cut without these characters, or without whitespace, at its ends.
    Trim { of: usize, chars: Option<Rc<str>>, left: bool, right: bool },
    /// The part before the first separator.
    First { of: usize, separator: Rc<str> },
    /// The part after the last separator.
    Last { of: usize, separator: Rc<str> },
    /// The part after `index` separators, up to the next one.
    Part { of: usize, separator: Rc<str>, index: usize },
}

/// The operand of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// A cut, by its number.
    Cut(usize),
    /// A value of the record, by its number.
    Node(usize),
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Comparand {
    /// A cut, by its number.
    Cut(usize),
    /// A constant, the same for all conversations.
    Constant(Json),
}

/// A guard: a condition on a conversation that a program checks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Guard {
    /// The cut is empty.
    Empty(usize),
    /// The cut equals this text.
    Equals(usize, Rc<str>),
    /// The cut contains this text.
    Contains(usize, Rc<str>),
    /// The cut begins with this text.
    StartsWith(usize, Rc<str>),
    /// The cut ends with this text.
    EndsWith(usize, Rc<str>),
    /// The comparison holds between the two sides.
    Compares(ComparisonOperator, Comparand, Comparand),
    /// The comparison holds between the cut's number of characters and this number.
    Length(usize, ComparisonOperator, i64),
    /// The cut has this many of these separators.
    Separators(usize, Rc<str>, usize),
    /// The operation gives this value; without one, no value that is defined.
    Gives(Operation, Operand, Option<Json>),
    /// The value equals this one.
    Same(usize, Json),
    /// The list or object is not empty.
    Filled(usize),
    /// The list has this many items.
    Items(usize, usize),
    /// The object has these keys, in this order.
    Keys(usize, Rc<[Rc<str>]>),
}

/// A place in a list or an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyOrIndex {
    /// Under a key.
    Key(Rc<str>),
    /// At an index.
    Index(usize),
}

/// The kind of the value at a place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ValueKind {
    /// No value.
    Missing,
    /// A text.
    Text,
    /// A list.
    List,
    /// An object.
    Map,
    /// This number, boolean or null.
    Plain(Json),
}

impl ValueKind {
    /// The kind of `value`.
    pub(crate) fn of(value: Option<&Json>) -> Self {
        match value {
            None => Self::Missing,
            Some(Json::String(_)) => Self::Text,
            Some(Json::List(_)) => Self::List,
            Some(Json::Map(_)) => Self::Map,
            Some(plain) => Self::Plain(plain.clone()),
        }
    }

    /// True if the program takes it as a value of its own.
    pub(crate) fn is_node(&self) -> bool {
        matches!(self, Self::Text | Self::List | Self::Map)
    }
}

/// A step of a program. All steps run before anything is printed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ProgramStep {
    /// Adds a cut.
    Cut(TextRange),
    /// Adds the text of a value as a cut.
    Read(usize),
    /// Adds the text that an operation gives as a cut.
    Make(Operation, Operand),
    /// Adds several joined pieces as a cut.
    Join(Rc<[OutputPiece]>),
    /// Looks up a place in a value, which has to hold this kind of value. A text, a list or an object becomes
    /// the next value.
    Look { of: usize, at: KeyOrIndex, found: ValueKind },
    /// Checks a guard, which has to have this outcome.
    Check(Guard, bool),
}

impl ProgramStep {
    /// True if it adds a cut.
    pub(crate) fn cuts(&self) -> bool {
        matches!(self, Self::Cut(_) | Self::Read(_) | Self::Make(..) | Self::Join(_))
    }
}

/// A piece of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutputPiece {
    /// A constant, the same for all conversations.
    Literal(Rc<str>),
    /// A cut, by its number among the cuts.
    Cut(usize),
    /// The start of a generation block, in the turn of a loop for this object of a list such as `messages`.
    Begin(Option<usize>),
    /// The end of a generation block.
    End,
}
