//! [`Program`]: what a template does to conversations of one outline, as pieces to be put together.
//!
//! A [`Trace`](super::trace::Trace) makes one. It serves every conversation of which its questions have the same
//! answers; for others, another run of the interpreter makes another program.

use std::ops::Range;

use super::cuts::trimmed;
use super::failure::Outcome;
#[cfg(test)]
use super::operation::Operation;
use super::steps::{Cut, Found, Piece, Place, Question, Step};
use super::workbench::{Material, Workbench};
use crate::record::value::Value as Json;

/// What a template does to conversations of one outline.
#[derive(Debug)]
pub(super) struct Program {
    steps: Vec<Step>,
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
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.spans.clear();
        self.literals.clear();
    }
}

impl Program {
    /// A program of these steps and pieces, those that only make a longer literal made one.
    pub(super) fn new(steps: Vec<Step>, pieces: Vec<Piece>) -> Self {
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
    pub(super) fn size(&self) -> usize {
        self.steps.len() + self.pieces.len()
    }

    /// Whether the program serves a conversation, and does so within what the meter of `bench` allows.
    ///
    /// Its cuts are left in `bench`, where [`Program::print`] finds them.
    pub(super) fn serves(&self, material: Material<'_>, bench: &mut Workbench<'_>) -> bool {
        bench.clear();
        let mut nodes: Vec<&Json> = material.values.iter().collect();
        self.steps.iter().all(|step| Self::follows(step, material, &mut nodes, bench) == Some(true))
    }

    /// Whether a step of the program comes out as it did before; nothing where it does too much.
    fn follows<'n>(
        step: &Step,
        material: Material<'n>,
        nodes: &mut Vec<&'n Json>,
        bench: &mut Workbench<'_>,
    ) -> Option<bool> {
        let done = match step {
            Step::Cut(cut) => bench.cut(cut, material).map(|()| true),
            Step::Read(node) => {
                let Json::String(text) = nodes[*node] else { return Some(false) };
                bench.read(text).map(|()| true)
            }
            Step::Make(operation, of) => bench.make(operation, *of, material.source, nodes),
            Step::Join(pieces) => bench.join(pieces, material.source).map(|()| true),
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
                bench.holds(question, material.source, nodes).map(|holds| holds == *answer)
            }
        };
        done.ok()
    }

    /// Appends what the template prints to `out`, unless that is more than the meter of `bench` allows.
    pub(super) fn print(
        &self,
        source: &str,
        bench: &mut Workbench<'_>,
        out: &mut Printed,
    ) -> Outcome<()> {
        let Printed { text, spans, literals } = out;
        bench.begun.clear();
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
                Piece::Cut(cut) => bench.meter.write(text, bench.text(source, *cut))?,
                Piece::Begin => bench.begun.push(text.len()),
                Piece::End => spans.extend(bench.begun.pop().map(|start| start..text.len())),
            }
        }
        Ok(())
    }

    /// Tells where the texts are printed in what [`Program::print`] makes; blanks at their ends are left out, and so are
    /// texts of nothing but blanks.
    ///
    /// Only of a program that [is blind to marks](Program::is_blind_to_marks).
    pub(super) fn places(
        &self,
        source: &str,
        bench: &Workbench<'_>,
        mut place: impl FnMut(usize, Range<usize>),
    ) {
        let mut at = 0;
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => at += literal.len(),
                Piece::Cut(cut) => {
                    let text = bench.text(source, *cut);
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
    pub(super) fn is_blind_to_marks(&self) -> bool {
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
                !part.is_empty() && !part.contains(super::text::is_space)
            }
            _ => false,
        })
    }

    /// A program that is wrong: it leaves the ends of texts as they are.
    #[cfg(test)]
    pub(super) fn trim_no_more(&mut self) {
        for step in &mut self.steps {
            if let Step::Cut(Cut::Trim { left, right, .. }) = step {
                (*left, *right) = (false, false);
            }
        }
    }

    /// A program that is wrong: it prints values as they are.
    #[cfg(test)]
    pub(super) fn print_alone(&mut self) {
        for step in &mut self.steps {
            if let Step::Make(operation, _) = step {
                *operation = Operation::bare(super::operation::Function::Print);
            }
        }
    }

    /// A program that is wrong: it serves conversations that it was not made for.
    #[cfg(test)]
    pub(super) fn ask_no_more(&mut self) {
        self.steps.retain(|step| !matches!(step, Step::Ask(..)));
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
