//! [`Program`]: a recorded run of a template, as steps and pieces that give the output for other
//! conversations.
//!
//! A [`Trace`](crate::programs::trace::Trace) records it. It serves every conversation of its outline for
//! which its guards have the recorded outcomes. For others, another run of the interpreter records another
//! program.

use std::ops::Range;

use crate::failure::Outcome;
use crate::json::Value as Json;
use crate::programs::frame::{Frame, Material};
use crate::programs::steps::{Cut, Found, Piece, Place, Question, Step};
use crate::values::cuts::trimmed;

/// A recorded run of a template, for conversations of one outline.
#[derive(Debug)]
pub struct Program {
    pub(super) steps: Vec<Step>,
    pieces: Vec<Piece>,
}

/// The output of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// The text.
    pub text: String,
    /// Byte ranges that the assistant wrote.
    pub spans: Vec<Range<usize>>,
    /// Byte ranges that come from the template, ascending and disjoint. The rest comes from the conversation.
    pub literals: Vec<Range<usize>>,
}

impl Printed {
    /// Empties it, keeping its memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.spans.clear();
        self.literals.clear();
    }
}

impl Program {
    /// A program of these steps and pieces. Literals in a row become one.
    pub(crate) fn new(steps: Vec<Step>, pieces: Vec<Piece>) -> Self {
        let mut joined: Vec<Piece> = Vec::with_capacity(pieces.len());
        let mut literal = String::new();
        for piece in pieces {
            match piece {
                Piece::Literal(text) => literal.push_str(&text),
                other => {
                    if !literal.is_empty() {
                        joined.push(Piece::Literal(std::mem::take(&mut literal).into()));
                    }
                    joined.push(other);
                }
            }
        }
        if !literal.is_empty() {
            joined.push(Piece::Literal(literal.into()));
        }
        Self { steps, pieces: joined }
    }

    /// The number of steps and pieces.
    pub fn size(&self) -> usize {
        self.steps.len() + self.pieces.len()
    }

    /// Whether the program serves a conversation within the limits of the meter of `frame`.
    ///
    /// The cuts stay in `frame` for [`Program::print`].
    pub fn serves(&self, material: Material<'_>, frame: &mut Frame<'_>) -> bool {
        frame.clear();
        let mut nodes: Vec<&Json> = material.values.iter().collect();
        self.steps.iter().all(|step| Self::follows(step, material, &mut nodes, frame) == Some(true))
    }

    /// Whether a step has the recorded outcome; `None` if it fails, such as at a limit.
    fn follows<'n>(
        step: &Step,
        material: Material<'n>,
        nodes: &mut Vec<&'n Json>,
        frame: &mut Frame<'_>,
    ) -> Option<bool> {
        let done = match step {
            Step::Cut(cut) => frame.cut(cut, material).map(|()| true),
            Step::Read(node) => {
                let Json::String(text) = nodes[*node] else { return Some(false) };
                frame.read(text).map(|()| true)
            }
            Step::Make(operation, of) => frame.make(operation, *of, material.source, nodes),
            Step::Join(pieces) => frame.join(pieces, material.source).map(|()| true),
            Step::Look { of, at, found } => {
                let there = match (nodes[*of], at) {
                    (Json::Map(map), Place::Key(key)) => map.get(&**key),
                    (Json::List(items), Place::Index(index)) => items.get(*index),
                    _ => None,
                };
                nodes.extend(there.filter(|_| found.is_node()));
                Ok(Found::of(there) == *found)
            }
            Step::Ask(question, answer) => {
                frame.holds(question, material.source, nodes).map(|holds| holds == *answer)
            }
        };
        done.ok()
    }

    /// Appends the output to `out`. Fails at the limits of the meter of `frame`.
    pub fn print(&self, source: &str, frame: &mut Frame<'_>, out: &mut Printed) -> Outcome<()> {
        let Printed { text, spans, literals } = out;
        frame.begun.clear();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => {
                    let start = text.len();
                    text.push_str(literal);
                    match literals.last_mut().filter(|last| last.end == start) {
                        Some(last) => last.end = text.len(),
                        None => literals.push(start..text.len()),
                    }
                }
                Piece::Cut(cut) => frame.meter.write(text, frame.text(source, *cut))?,
                Piece::Begin => frame.begun.push(text.len()),
                Piece::End => spans.extend(frame.begun.pop().map(|start| start..text.len())),
            }
        }
        Ok(())
    }

    /// Calls `place` with the number and the byte range of each text in the output of [`Program::print`],
    /// without the blanks at its ends. Blank texts are left out.
    ///
    /// The program has to be [blind to marks](Program::is_blind_to_marks).
    pub fn places(
        &self,
        source: &str,
        frame: &Frame<'_>,
        mut place: impl FnMut(usize, Range<usize>),
    ) {
        let mut at = 0;
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => at += literal.len(),
                Piece::Cut(cut) => {
                    let text = frame.text(source, *cut);
                    let inner = trimmed(text, None, true, true);
                    if !inner.is_empty() {
                        let start = at + text.len() - trimmed(text, None, true, false).len();
                        place(self.text_of(*cut), start..start + inner.len());
                    }
                    at += text.len();
                }
                Piece::Begin | Piece::End => {}
            }
        }
    }

    /// Whether marks inside of the blanks at the ends of texts change nothing in the output but add the
    /// marks.
    ///
    /// A mark can break a match in a text, but cannot make one.
    pub fn is_blind_to_marks(&self) -> bool {
        let blank = |text: &str| trimmed(text, None, true, true).is_empty();
        self.steps.iter().all(|step| match step {
            Step::Cut(Cut::Whole(_) | Cut::Trim { chars: None, .. })
            | Step::Ask(Question::Empty(_), _)
            | Step::Ask(
                Question::Equals(..)
                | Question::Contains(..)
                | Question::StartsWith(..)
                | Question::EndsWith(..),
                false,
            ) => true,
            Step::Cut(Cut::Trim { chars: Some(chars), .. }) => blank(chars),
            Step::Ask(Question::Contains(_, part), _) => {
                !part.is_empty() && !part.contains(crate::text::is_space)
            }
            _ => false,
        })
    }

    /// The number of the text that a cut is a part of.
    fn text_of(&self, cut: usize) -> usize {
        match self.steps.iter().filter(|step| step.cuts()).nth(cut) {
            Some(Step::Cut(Cut::Whole(text))) => *text,
            Some(Step::Cut(
                Cut::Trim { of, .. }
                | Cut::First { of, .. }
                | Cut::Last { of, .. }
                | Cut::Part { of, .. },
            )) => self.text_of(*of),
            _ => 0,
        }
    }
}
