//! [`Workbench`]: the cuts of one conversation, and what a [program](super::replay) makes of them.

use std::ops::Range;

use memchr::memmem;

use super::methods::trimmed;
use super::operation::Operation;
use super::operators::compare;
use super::steps::{Cut, Operand, Piece, Question, Side};
use super::value::{Text, Value};
use crate::record::value::Value as Json;

/// What differs between conversations of one outline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Material<'m> {
    /// The texts, end to end.
    pub(super) source: &'m str,
    /// Where each text stands.
    pub(super) texts: &'m [Range<usize>],
    /// The values that are no texts.
    pub(super) values: &'m [Json],
}

/// Where a cut stands: in the texts of the conversation, or in what was made of them.
#[derive(Clone, Debug)]
struct Spot {
    made: bool,
    range: Range<usize>,
}

/// What a program works with, kept from record to record.
#[derive(Debug, Default)]
pub(super) struct Workbench {
    cuts: Vec<Spot>,
    /// The texts that were made, end to end.
    made: String,
    /// Where the generation blocks begin that have not ended.
    pub(super) begun: Vec<usize>,
}

/// Tells which part of a text is cut out of it.
type Part<'p> = dyn Fn(&str) -> Range<usize> + 'p;

impl Workbench {
    /// Begins with another conversation.
    pub(super) fn clear(&mut self) {
        self.cuts.clear();
        self.made.clear();
    }

    /// A text of the record, as the next cut.
    pub(super) fn read(&mut self, text: &str) {
        let start = self.made.len();
        self.made.push_str(text);
        self.push_made(start);
    }

    /// The text of a cut.
    pub(super) fn text<'b>(&'b self, source: &'b str, cut: usize) -> &'b str {
        let Spot { made, range } = &self.cuts[cut];
        let within = if *made { &self.made } else { source };
        &within[range.clone()]
    }

    /// Makes the next cut of what was appended to `made` from `start` on.
    fn push_made(&mut self, start: usize) {
        self.cuts.push(Spot { made: true, range: start..self.made.len() });
    }

    /// The next cut, a part of another.
    pub(super) fn cut(&mut self, cut: &Cut, material: Material<'_>) {
        let (of, part): (usize, &Part<'_>) = match cut {
            Cut::Whole(text) => {
                self.cuts.push(Spot { made: false, range: material.texts[*text].clone() });
                return;
            }
            Cut::Trim { of, chars, left, right } => (*of, &|text| {
                let rest = trimmed(text, chars.as_deref(), *left, false);
                let start = text.len() - rest.len();
                start..start + trimmed(rest, chars.as_deref(), false, *right).len()
            }),
            Cut::First { of, separator } => (*of, &|text| {
                0..memmem::find(text.as_bytes(), separator.as_bytes()).unwrap_or(text.len())
            }),
            Cut::Last { of, separator } => (*of, &|text| {
                let found = memmem::find_iter(text.as_bytes(), separator.as_bytes()).last();
                found.map_or(0, |at| at + separator.len())..text.len()
            }),
            Cut::Part { of, separator, index } => (*of, &|text| {
                let mut ends = text.match_indices(&**separator).map(|(at, _)| at);
                let start = match index.checked_sub(1) {
                    None => 0,
                    Some(before) => ends.nth(before).map_or(text.len(), |at| at + separator.len()),
                };
                start..ends.next().unwrap_or(text.len())
            }),
        };
        let part = part(self.text(material.source, of));
        let Spot { made, range } = &self.cuts[of];
        let spot = Spot { made: *made, range: range.start + part.start..range.start + part.end };
        self.cuts.push(spot);
    }

    /// Pieces, as the next cut.
    pub(super) fn join(&mut self, pieces: &[Piece], source: &str) {
        let start = self.made.len();
        for piece in pieces {
            match piece {
                Piece::Literal(literal) => self.made.push_str(literal),
                Piece::Cut(cut) => {
                    let Spot { made, range } = self.cuts[*cut].clone();
                    if made {
                        self.made.extend_from_within(range);
                    } else {
                        self.made.push_str(&source[range]);
                    }
                }
                Piece::Begin | Piece::End => {}
            }
        }
        self.push_made(start);
    }

    /// Does an operation; whether it made a text, and this one is the next cut.
    pub(super) fn make(
        &mut self,
        operation: &Operation,
        of: Operand,
        source: &str,
        nodes: &[&Json],
    ) -> bool {
        let made = match of {
            Operand::Cut(cut) => {
                let text = Value::String(Text::Borrowed(self.text(source, cut)));
                match operation.apply(&text) {
                    Ok(Value::String(text)) => text.to_string(),
                    _ => return false,
                }
            }
            Operand::Node(node) => match operation.apply(&Value::from_json(nodes[node])) {
                Ok(Value::String(text)) => text.to_string(),
                _ => return false,
            },
        };
        self.read(&made);
        true
    }

    /// The answer to a question.
    pub(super) fn holds(&self, question: &Question, source: &str, nodes: &[&Json]) -> bool {
        let text = |cut: &usize| self.text(source, *cut);
        let side = |side: &'_ Side| -> Json {
            match side {
                Side::Cut(cut) => Json::String(text(cut).into()),
                Side::Constant(value) => value.clone(),
            }
        };
        match question {
            Question::Empty(cut) => text(cut).is_empty(),
            Question::Equals(cut, other) => *text(cut) == **other,
            Question::Contains(cut, part) => {
                memmem::find(text(cut).as_bytes(), part.as_bytes()).is_some()
            }
            Question::StartsWith(cut, part) => text(cut).starts_with(&**part),
            Question::EndsWith(cut, part) => text(cut).ends_with(&**part),
            Question::Compares(comparison, left, right) => {
                let (left, right) = (side(left), side(right));
                compare(*comparison, &Value::from_json(&left), &Value::from_json(&right))
                    .unwrap_or(false)
            }
            Question::Length(cut, comparison, other) => {
                let length = i64::try_from(text(cut).chars().count()).unwrap_or(i64::MAX);
                compare(*comparison, &Value::Int(length), &Value::Int(*other)).unwrap_or(false)
            }
            Question::Separators(cut, separator, count) => {
                text(cut).matches(&**separator).count() == *count
            }
            Question::Gives(operation, of, answer) => {
                let value = match of {
                    Operand::Cut(cut) => Value::String(Text::Borrowed(text(cut))),
                    Operand::Node(node) => Value::from_json(nodes[*node]),
                };
                operation.apply(&value).is_ok_and(|given| given.to_json().as_ref() == Some(answer))
            }
            Question::Same(node, value) => nodes[*node] == value,
            Question::Filled(node) => Value::from_json(nodes[*node]).is_true(),
            Question::Items(node, count) => {
                matches!(nodes[*node], Json::List(items) if items.len() == *count)
            }
            Question::Keys(node, keys) => {
                matches!(nodes[*node], Json::Map(map) if map.keys().map(|key| &**key).eq(keys.iter().map(|key| &**key)))
            }
        }
    }
}
