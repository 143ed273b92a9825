//! [`Frame`]: the cuts of one conversation, and what a [program](crate::programs::program) makes of them.

use std::ops::Range;

use crate::failure::Outcome;
use crate::json::Value as Json;
use crate::limits::Meter;
use crate::programs::operation::Operation;
use crate::programs::steps::{Cut, Operand, Piece, Question, Side};
use crate::values::comparing::compare;
use crate::values::cuts::trimmed;
use crate::values::search::{self, Matches};
use crate::values::value::{Text, Value};

/// What differs between conversations of one outline.
#[derive(Clone, Copy, Debug)]
pub struct Material<'m> {
    /// The texts, end to end.
    pub source: &'m str,
    /// Where each text stands.
    pub texts: &'m [Range<usize>],
    /// The values that are no texts.
    pub values: &'m [Json],
}

/// Where a cut stands: in the texts of the conversation, or in what was made of them.
#[derive(Clone, Debug)]
struct Spot {
    made: bool,
    range: Range<usize>,
}

/// What a program works with, kept from record to record.
#[derive(Debug)]
pub struct Frame<'m> {
    cuts: Vec<Spot>,
    /// The texts that were made, end to end.
    made: String,
    /// Where the generation blocks begin that have not ended.
    pub(crate) begun: Vec<usize>,
    /// What may be done for the conversation at hand.
    pub meter: Meter<'m>,
}

/// Tells which part of a text is cut out of it.
type Part<'p> = dyn Fn(&str, &Meter<'_>) -> Outcome<Range<usize>> + 'p;

impl<'m> Frame<'m> {
    /// An empty one, whose work `meter` counts.
    pub fn new(meter: Meter<'m>) -> Self {
        Self { cuts: Vec::new(), made: String::new(), begun: Vec::new(), meter }
    }

    /// Begins with another conversation, or once more.
    pub(crate) fn clear(&mut self) {
        self.cuts.clear();
        self.meter.release(self.made.len());
        self.made.clear();
    }

    /// A text of the record, as the next cut.
    pub(crate) fn read(&mut self, text: &str) -> Outcome<()> {
        let start = self.made.len();
        self.meter.write(&mut self.made, text)?;
        self.push_made(start);
        Ok(())
    }

    /// The text of a cut.
    pub(crate) fn text<'b>(&'b self, source: &'b str, cut: usize) -> &'b str {
        let Spot { made, range } = &self.cuts[cut];
        let within = if *made { &self.made } else { source };
        &within[range.clone()]
    }

    /// Makes the next cut of what was appended to `made` from `start` on.
    fn push_made(&mut self, start: usize) {
        self.cuts.push(Spot { made: true, range: start..self.made.len() });
    }

    /// The next cut, a part of another.
    pub(crate) fn cut(&mut self, cut: &Cut, material: Material<'_>) -> Outcome<()> {
        let (of, part): (usize, &Part<'_>) = match cut {
            Cut::Whole(text) => {
                self.cuts.push(Spot { made: false, range: material.texts[*text].clone() });
                return Ok(());
            }
            Cut::Trim { of, chars, left, right } => (*of, &|text, meter| {
                let rest = trimmed(text, chars.as_deref(), *left, false);
                let start = text.len() - rest.len();
                let length = trimmed(rest, chars.as_deref(), false, *right).len();
                meter.characters(text.len() - length)?;
                Ok(start..start + length)
            }),
            Cut::First { of, separator } => (*of, &|text, meter| {
                Ok(0..Matches::new(text, separator, meter)?.next()?.unwrap_or(text.len()))
            }),
            Cut::Last { of, separator } => (*of, &|text, meter| {
                let mut places = Matches::new(text, separator, meter)?;
                let mut start = 0;
                while let Some(at) = places.next()? {
                    start = at + separator.len();
                }
                Ok(start..text.len())
            }),
            Cut::Part { of, separator, index } => (*of, &|text, meter| {
                let mut places = Matches::new(text, separator, meter)?;
                let mut start = 0;
                for _ in 0..*index {
                    start = places.next()?.map_or(text.len(), |at| at + separator.len());
                }
                Ok(start..places.next()?.unwrap_or(text.len()))
            }),
        };
        let part = part(self.text(material.source, of), &self.meter)?;
        let Spot { made, range } = &self.cuts[of];
        let spot = Spot { made: *made, range: range.start + part.start..range.start + part.end };
        self.cuts.push(spot);
        Ok(())
    }

    /// Pieces, as the next cut.
    pub(crate) fn join(&mut self, pieces: &[Piece], source: &str) -> Outcome<()> {
        let start = self.made.len();
        for piece in pieces {
            match piece {
                Piece::Literal(literal) => self.meter.write(&mut self.made, literal)?,
                Piece::Cut(cut) => {
                    let Spot { made, range } = self.cuts[*cut].clone();
                    if made {
                        self.meter.bytes(range.len())?;
                        self.meter.hold(range.len())?;
                        self.made.extend_from_within(range);
                    } else {
                        self.meter.write(&mut self.made, &source[range])?;
                    }
                }
                Piece::Begin | Piece::End => {}
            }
        }
        self.push_made(start);
        Ok(())
    }

    /// Does an operation; whether it made a text, and this one is the next cut.
    pub(crate) fn make(
        &mut self,
        operation: &Operation,
        of: Operand,
        source: &str,
        nodes: &[&Json],
    ) -> Outcome<bool> {
        let Value::String(made) = operation.apply(&self.operand(of, source, nodes), &self.meter)?
        else {
            return Ok(false);
        };
        let start = self.made.len();
        // What was made may lie in what it is appended to.
        let made = made.to_string();
        self.meter.write(&mut self.made, &made)?;
        self.push_made(start);
        Ok(true)
    }

    /// What an operation works on.
    fn operand<'v>(&'v self, of: Operand, source: &'v str, nodes: &[&'v Json]) -> Value<'v> {
        match of {
            Operand::Cut(cut) => Value::String(Text::Borrowed(self.text(source, cut))),
            Operand::Node(node) => Value::from_json(nodes[node]),
        }
    }

    /// A side of a comparison.
    fn side<'v>(&'v self, side: &'v Side, source: &'v str) -> Value<'v> {
        match side {
            Side::Cut(cut) => Value::String(Text::Borrowed(self.text(source, *cut))),
            Side::Constant(value) => Value::from_json(value),
        }
    }

    /// The answer to a question.
    pub(crate) fn holds(
        &self,
        question: &Question,
        source: &str,
        nodes: &[&Json],
    ) -> Outcome<bool> {
        let meter = &self.meter;
        meter.items(1)?;
        let text = |cut: &usize| self.text(source, *cut);
        match question {
            Question::Empty(cut) => Ok(text(cut).is_empty()),
            Question::Equals(cut, other) => Ok(*text(cut) == **other),
            Question::Contains(cut, part) => search::contains(text(cut), part, meter),
            Question::StartsWith(cut, part) => Ok(text(cut).starts_with(&**part)),
            Question::EndsWith(cut, part) => Ok(text(cut).ends_with(&**part)),
            Question::Compares(comparison, left, right) => {
                compare(*comparison, &self.side(left, source), &self.side(right, source), meter)
            }
            Question::Length(cut, comparison, other) => {
                meter.bytes(text(cut).len())?;
                let length = i64::try_from(text(cut).chars().count()).unwrap_or(i64::MAX);
                compare(*comparison, &Value::Int(length), &Value::Int(*other), meter)
            }
            Question::Separators(cut, separator, count) => {
                let mut places = Matches::new(text(cut), separator, meter)?;
                let mut found = 0;
                while places.next()?.is_some() {
                    found += 1;
                }
                Ok(found == *count)
            }
            Question::Gives(operation, of, answer) => {
                let given = operation.apply(&self.operand(*of, source, nodes), meter);
                Ok(given.is_ok_and(|given| given.to_json().as_ref() == Some(answer)))
            }
            Question::Same(node, value) => Ok(nodes[*node] == value),
            Question::Filled(node) => Ok(Value::from_json(nodes[*node]).is_true()),
            Question::Items(node, count) => {
                Ok(matches!(nodes[*node], Json::List(items) if items.len() == *count))
            }
            Question::Keys(node, keys) => Ok(
                matches!(nodes[*node], Json::Map(map) if map.keys().map(|key| &**key).eq(keys.iter().map(|key| &**key))),
            ),
        }
    }
}
