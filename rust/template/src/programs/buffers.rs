//! [`ProgramBuffers`]: the buffers of a [program](crate::programs::program): the cuts of one conversation, and the
//! texts computed of them.

use std::ops::Range;

use crate::failure::RenderResult;
use crate::json::Json;
use crate::programs::operation::Operation;
use crate::programs::steps::{Comparand, Guard, Operand, OutputPiece, TextRange};
use crate::render_limits::Meter;
use crate::values::operators::comparing::compare;
use crate::values::texts::cuts::trimmed;
use crate::values::texts::search;
use crate::values::texts::search::Matches;
use crate::values::texts::text::Text;
use crate::values::value::Value;

/// The texts and values of a conversation, in which conversations of one outline differ.
#[derive(Clone, Copy, Debug)]
pub struct ReplayInput<'m> {
    /// The texts, end to end.
    pub source: &'m str,
    /// The byte range of each text in `source`.
    pub texts: &'m [Range<usize>],
    /// The values that are no texts.
    pub values: &'m [Json],
}

/// The place of a cut: a byte range of the conversation's texts, or of the computed texts.
#[derive(Clone, Debug)]
struct CutRange {
    is_computed: bool,
    range: Range<usize>,
}

/// The buffers of a program, reused from record to record.
#[derive(Debug)]
pub struct ProgramBuffers<'m> {
    cuts: Vec<CutRange>,
    /// The computed texts, end to end.
    computed: String,
    /// The starts of the generation blocks that are open.
    pub(crate) begun: Vec<usize>,
    /// The meter of the current conversation.
    pub meter: Meter<'m>,
}

/// Finds the part of a text to cut out.
type CutFinder<'p> = dyn Fn(&str, &Meter<'_>) -> RenderResult<Range<usize>> + 'p;

impl<'m> ProgramBuffers<'m> {
    /// An empty buffers, whose work `meter` counts.
    pub fn new(meter: Meter<'m>) -> Self {
        Self { cuts: Vec::new(), computed: String::new(), begun: Vec::new(), meter }
    }

    /// Removes all cuts before another run of a program.
    pub(crate) fn clear(&mut self) {
        self.cuts.clear();
        self.meter.release(self.computed.len());
        self.computed.clear();
    }

    /// Adds a text of the record as the next cut.
    pub(crate) fn read(&mut self, text: &str) -> RenderResult<()> {
        let start = self.computed.len();
        self.meter.write(&mut self.computed, text)?;
        self.push_computed(start);
        Ok(())
    }

    /// The text of a cut.
    pub(crate) fn text<'b>(&'b self, source: &'b str, cut: usize) -> &'b str {
        let CutRange { is_computed, range } = &self.cuts[cut];
        let within = if *is_computed { &self.computed } else { source };
        &within[range.clone()]
    }

    /// Adds the computed text from `start` on as the next cut.
    fn push_computed(&mut self, start: usize) {
        self.cuts.push(CutRange { is_computed: true, range: start..self.computed.len() });
    }

    /// Adds the next cut: a text, or a part of another cut.
    pub(crate) fn cut(&mut self, cut: &TextRange, input: ReplayInput<'_>) -> RenderResult<()> {
        let (of, part): (usize, &CutFinder<'_>) = match cut {
            TextRange::Whole(text) => {
                self.cuts.push(CutRange { is_computed: false, range: input.texts[*text].clone() });
                return Ok(());
            }
            TextRange::Trim { of, chars, left, right } => (*of, &|text, meter| {
                let rest = trimmed(text, chars.as_deref(), *left, false);
                let start = text.len() - rest.len();
                let length = trimmed(rest, chars.as_deref(), false, *right).len();
                meter.characters(text.len() - length)?;
                Ok(start..start + length)
            }),
            TextRange::First { of, separator } => (*of, &|text, meter| {
                Ok(0..Matches::new(text, separator, meter)?.next()?.unwrap_or(text.len()))
            }),
            TextRange::Last { of, separator } => (*of, &|text, meter| {
                let mut places = Matches::new(text, separator, meter)?;
                let mut start = 0;
                while let Some(at) = places.next()? {
                    start = at + separator.len();
                }
                Ok(start..text.len())
            }),
            TextRange::Part { of, separator, index } => (*of, &|text, meter| {
                let mut places = Matches::new(text, separator, meter)?;
                let mut start = 0;
                for _ in 0..*index {
                    start = places.next()?.map_or(text.len(), |at| at + separator.len());
                }
                Ok(start..places.next()?.unwrap_or(text.len()))
            }),
        };
        let part = part(self.text(input.source, of), &self.meter)?;
        let CutRange { is_computed, range } = &self.cuts[of];
        let spot = CutRange {
            is_computed: *is_computed,
            range: range.start + part.start..range.start + part.end,
        };
        self.cuts.push(spot);
        Ok(())
    }

    /// Adds the joined pieces as the next cut.
    pub(crate) fn join(&mut self, pieces: &[OutputPiece], source: &str) -> RenderResult<()> {
        let start = self.computed.len();
        for piece in pieces {
            match piece {
                OutputPiece::Literal(literal) => self.meter.write(&mut self.computed, literal)?,
                OutputPiece::Cut(cut) => {
                    let CutRange { is_computed, range } = self.cuts[*cut].clone();
                    if is_computed {
                        self.meter.bytes(range.len())?;
                        self.meter.hold(range.len())?;
                        self.computed.extend_from_within(range);
                    } else {
                        self.meter.write(&mut self.computed, &source[range])?;
                    }
                }
                OutputPiece::Begin(_) | OutputPiece::End => {}
            }
        }
        self.push_computed(start);
        Ok(())
    }

    /// Applies an operation. If the result is a text, adds it as the next cut and returns `true`.
    pub(crate) fn make(
        &mut self,
        operation: &Operation,
        of: Operand,
        source: &str,
        nodes: &[&Json],
    ) -> RenderResult<bool> {
        let Value::String(text) = operation.apply(&self.operand(of, source, nodes), &self.meter)?
        else {
            return Ok(false);
        };
        let start = self.computed.len();
        // The result may borrow from the buffer that it is appended to.
        let text = text.to_string();
        self.meter.write(&mut self.computed, &text)?;
        self.push_computed(start);
        Ok(true)
    }

    /// The value of an operand.
    fn operand<'v>(&'v self, of: Operand, source: &'v str, nodes: &[&'v Json]) -> Value<'v> {
        match of {
            Operand::Cut(cut) => Value::String(Text::Borrowed(self.text(source, cut))),
            Operand::Node(node) => Value::from_json(nodes[node]),
        }
    }

    /// The value of a side of a comparison.
    fn side<'v>(&'v self, side: &'v Comparand, source: &'v str) -> Value<'v> {
        match side {
            Comparand::Cut(cut) => Value::String(Text::Borrowed(self.text(source, *cut))),
            Comparand::Constant(value) => Value::from_json(value),
        }
    }

    /// True if a guard holds.
    pub(crate) fn holds(&self, guard: &Guard, source: &str, nodes: &[&Json]) -> RenderResult<bool> {
        let meter = &self.meter;
        meter.items(1)?;
        let text = |cut: &usize| self.text(source, *cut);
        match guard {
            Guard::Empty(cut) => Ok(text(cut).is_empty()),
            Guard::Equals(cut, other) => Ok(*text(cut) == **other),
            Guard::Contains(cut, part) => search::contains(text(cut), part, meter),
            Guard::StartsWith(cut, part) => Ok(text(cut).starts_with(&**part)),
            Guard::EndsWith(cut, part) => Ok(text(cut).ends_with(&**part)),
            Guard::Compares(comparison, left, right) => {
                compare(*comparison, &self.side(left, source), &self.side(right, source), meter)
            }
            Guard::Length(cut, comparison, other) => {
                meter.bytes(text(cut).len())?;
                let length = i64::try_from(text(cut).chars().count()).unwrap_or(i64::MAX);
                compare(*comparison, &Value::Int(length), &Value::Int(*other), meter)
            }
            Guard::Separators(cut, separator, count) => {
                let mut places = Matches::new(text(cut), separator, meter)?;
                let mut found = 0;
                while places.next()?.is_some() {
                    found += 1;
                }
                Ok(found == *count)
            }
            Guard::Gives(operation, of, answer) => {
                let result = operation.apply(&self.operand(*of, source, nodes), meter);
                Ok(result.is_ok_and(|value| match answer {
                    Some(answer) => value.to_json().as_ref() == Some(answer),
                    None => matches!(value, Value::Undefined),
                }))
            }
            Guard::Same(node, value) => Ok(nodes[*node] == value),
            Guard::Filled(node) => Ok(Value::from_json(nodes[*node]).is_true()),
            Guard::Items(node, count) => {
                Ok(matches!(nodes[*node], Json::List(items) if items.len() == *count))
            }
            Guard::Keys(node, keys) => Ok(
                matches!(nodes[*node], Json::Map(map) if map.keys().map(|key| &**key).eq(keys.iter().map(|key| &**key))),
            ),
        }
    }
}
