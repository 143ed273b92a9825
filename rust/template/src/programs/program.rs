//! [`Program`]: what a template does to conversations of one outline, as pieces to be put together.
//!
//! A [`Trace`](crate::programs::trace::Trace) makes one. It serves every conversation of which its questions have the same
//! answers; for others, another run of the interpreter makes another program.

use std::ops::Range;

use crate::failure::Outcome;
use crate::json::Value as Json;
use crate::programs::frame::{Frame, Material};
use crate::programs::steps::{Cut, Found, Piece, Place, Question, Step};
use crate::values::cuts::trimmed;

/// What a template does to conversations of one outline.
#[derive(Debug)]
pub struct Program {
    pub(super) steps: Vec<Step>,
    pieces: Vec<Piece>,
}

/// What a template prints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// The text.
    pub text: String,
    /// What the assistant writes of it.
    pub spans: Vec<Range<usize>>,
    /// What of it stands in the template, ascending and apart: all else is of the conversation.
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
    /// A program of these steps and pieces, those that only make a longer literal made one.
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

    /// How many steps and pieces it has.
    pub fn size(&self) -> usize {
        self.steps.len() + self.pieces.len()
    }

    /// Whether the program serves a conversation, and does so within what the meter of `frame` allows.
    ///
    /// Its cuts are left in `frame`, where [`Program::print`] finds them.
    pub fn serves(&self, material: Material<'_>, frame: &mut Frame<'_>) -> bool {
        frame.clear();
        let mut nodes: Vec<&Json> = material.values.iter().collect();
        self.steps.iter().all(|step| Self::follows(step, material, &mut nodes, frame) == Some(true))
    }

    /// Whether a step of the program comes out as it did before; nothing where it does too much.
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

    /// Appends what the template prints to `out`, unless that is more than the meter of `frame` allows.
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

    /// Tells where the texts are printed in what [`Program::print`] makes; blanks at their ends are left out, and so are
    /// texts of nothing but blanks.
    ///
    /// Only of a program that [is blind to marks](Program::is_blind_to_marks).
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

    /// Whether it does the same to texts with a mark within the blanks at either end, but for the marks.
    ///
    /// A mark can part what would be found, but nothing is found for its sake.
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

    /// The text that a cut is a part of.
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
