//! What a [program](crate::programs::program) is made of: what it looks at, cuts and makes, asks, and prints.

use std::rc::Rc;

use crate::json::Value as Json;
use crate::language::operators::Comparison;
use crate::programs::operation::Operation;

/// A text, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// A text of the conversation, by its number.
    Whole(usize),
    /// A cut without these characters, or without whitespace, at its ends.
    Trim { of: usize, chars: Option<Rc<str>>, left: bool, right: bool },
    /// What stands before the first separator.
    First { of: usize, separator: Rc<str> },
    /// What stands behind the last separator.
    Last { of: usize, separator: Rc<str> },
    /// What stands behind so many separators, up to the next.
    Part { of: usize, separator: Rc<str>, index: usize },
}

/// What an operation works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// A cut, by its number.
    Cut(usize),
    /// A value of the record, by its number.
    Node(usize),
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Side {
    /// A cut, by its number.
    Cut(usize),
    /// The same for all conversations.
    Constant(Json),
}

/// What can be asked of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Question {
    /// Whether a cut is empty.
    Empty(usize),
    /// Whether a cut is this text.
    Equals(usize, Rc<str>),
    /// Whether a cut has this part.
    Contains(usize, Rc<str>),
    /// Whether a cut begins so.
    StartsWith(usize, Rc<str>),
    /// Whether a cut ends so.
    EndsWith(usize, Rc<str>),
    /// How cuts compare with each other, or with something else.
    Compares(Comparison, Side, Side),
    /// How the number of a cut's characters compares with this one.
    Length(usize, Comparison, i64),
    /// Whether a cut has so many of these separators.
    Separators(usize, Rc<str>, usize),
    /// Whether an operation gives this.
    Gives(Operation, Operand, Json),
    /// Whether a value is this one.
    Same(usize, Json),
    /// Whether a list or an object has anything in it.
    Filled(usize),
    /// Whether a list has so many items.
    Items(usize, usize),
    /// Whether an object has these keys, in this order.
    Keys(usize, Rc<[Rc<str>]>),
}

/// Where in a list or an object something is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Under a key.
    Key(Rc<str>),
    /// At an index.
    Index(usize),
}

/// What is found there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Found {
    /// Nothing.
    Missing,
    /// A text.
    Text,
    /// A list.
    List,
    /// An object.
    Map,
    /// This: a number or its like.
    Plain(Json),
}

impl Found {
    /// What `value` is.
    pub(crate) fn of(value: Option<&Json>) -> Self {
        match value {
            None => Self::Missing,
            Some(Json::String(_)) => Self::Text,
            Some(Json::List(_)) => Self::List,
            Some(Json::Map(_)) => Self::Map,
            Some(plain) => Self::Plain(plain.clone()),
        }
    }

    /// Whether it is what a program goes on with.
    pub(crate) fn is_node(&self) -> bool {
        matches!(self, Self::Text | Self::List | Self::Map)
    }
}

/// What comes before anything is printed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// The next cut.
    Cut(Cut),
    /// The text that a value is, as the next cut.
    Read(usize),
    /// The text that an operation makes, as the next cut.
    Make(Operation, Operand),
    /// Several pieces, as the next cut.
    Join(Rc<[Piece]>),
    /// What is found in a value, as the next value if it is a text, a list or an object.
    Look { of: usize, at: Place, found: Found },
    /// A question, and the answer that the rest depends on.
    Ask(Question, bool),
}

impl Step {
    /// Whether it makes a cut.
    pub(crate) fn cuts(&self) -> bool {
        matches!(self, Self::Cut(_) | Self::Read(_) | Self::Make(..) | Self::Join(_))
    }
}

/// What is printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// The same for all conversations.
    Literal(Rc<str>),
    /// A cut, by its number among the cuts.
    Cut(usize),
    /// Here the assistant begins to write.
    Begin,
    /// Here it ends.
    End,
}
