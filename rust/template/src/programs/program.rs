//! [`Program`]: a recorded run of a template, as steps and pieces that give the output for other
//! conversations.
//!
//! A [`Trace`](crate::programs::trace::Trace) records it. It serves every conversation of its outline for
//! which its guards have the recorded outcomes. For others, another run of the interpreter records another
//! program.

use std::ops::Range;

use crate::failure::RenderResult;
use crate::json::Json;
use crate::programs::buffers::{ProgramBuffers, ReplayInput};
use crate::programs::steps::{Guard, KeyOrIndex, OutputPiece, ProgramStep, TextRange, ValueKind};
use crate::values::texts::cuts::trimmed;

/// A recorded run of a template, for conversations of one outline.
#[derive(Debug)]
pub struct Program {
    pub(super) steps: Vec<ProgramStep>,
    pieces: Vec<OutputPiece>,
}

/// A place in the output of a program that is the same for every conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrintedPlace {
    /// The number of pieces before it.
    pieces: usize,
    /// Bytes of the piece behind these that are before it.
    bytes: usize,
}

/// The output of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// The text.
    pub text: String,
    /// Byte ranges that the assistant wrote.
    pub spans: Vec<Range<usize>>,
    /// For each span of a `{% generation %}` block, the index of the message that the innermost loop over messages was at; of
    /// another list of objects likewise.
    pub span_objects: Vec<Option<usize>>,
    /// Byte ranges that come from the template, ascending and disjoint. The rest comes from the conversation.
    pub literals: Vec<Range<usize>>,
}

impl Printed {
    /// Empties it, keeping its memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.spans.clear();
        self.span_objects.clear();
        self.literals.clear();
    }
}

impl Program {
    /// A program of these steps and pieces. Literals in a row become one.
    pub(crate) fn new(steps: Vec<ProgramStep>, pieces: Vec<OutputPiece>) -> Self {
        let mut joined: Vec<OutputPiece> = Vec::with_capacity(pieces.len());
        let mut literal = String::new();
        for piece in pieces {
            match piece {
                OutputPiece::Literal(text) => literal.push_str(&text),
                other => {
                    if !literal.is_empty() {
                        joined.push(OutputPiece::Literal(std::mem::take(&mut literal).into()));
                    }
                    joined.push(other);
                }
            }
        }
        if !literal.is_empty() {
            joined.push(OutputPiece::Literal(literal.into()));
        }
        Self { steps, pieces: joined }
    }

    /// The number of steps and pieces.
    pub fn size(&self) -> usize {
        self.steps.len() + self.pieces.len()
    }

    /// True if the program serves a conversation within the limits of the meter of `buffers`.
    ///
    /// The cuts stay in `buffers` for [`Program::print`].
    pub fn serves(&self, input: ReplayInput<'_>, buffers: &mut ProgramBuffers<'_>) -> bool {
        buffers.clear();
        let mut nodes: Vec<&Json> = input.values.iter().collect();
        self.steps.iter().all(|step| Self::follows(step, input, &mut nodes, buffers) == Some(true))
    }

    /// True if a step has the recorded outcome; `None` if it fails, such as at a limit.
    fn follows<'n>(
        step: &ProgramStep,
        input: ReplayInput<'n>,
        nodes: &mut Vec<&'n Json>,
        buffers: &mut ProgramBuffers<'_>,
    ) -> Option<bool> {
        let done = match step {
            ProgramStep::Cut(cut) => buffers.cut(cut, input).map(|()| true),
            ProgramStep::Read(node) => {
                let Json::String(text) = nodes[*node] else { return Some(false) };
                buffers.read(text).map(|()| true)
            }
            ProgramStep::Make(operation, of) => buffers.make(operation, *of, input.source, nodes),
            ProgramStep::Join(pieces) => buffers.join(pieces, input.source).map(|()| true),
            ProgramStep::Look { of, at, found } => {
                let there = match (nodes[*of], at) {
                    (Json::Map(map), KeyOrIndex::Key(key)) => map.get(&**key),
                    (Json::List(items), KeyOrIndex::Index(index)) => items.get(*index),
                    _ => None,
                };
                nodes.extend(there.filter(|_| found.is_node()));
                Ok(ValueKind::of(there) == *found)
            }
            ProgramStep::Check(guard, answer) => {
                buffers.holds(guard, input.source, nodes).map(|holds| holds == *answer)
            }
        };
        done.ok()
    }

    /// Appends the output to `out`. Fails at the limits of the meter of `buffers`.
    pub fn print(
        &self,
        source: &str,
        buffers: &mut ProgramBuffers<'_>,
        out: &mut Printed,
    ) -> RenderResult<()> {
        let Printed { text, spans, span_objects, literals } = out;
        buffers.begun.clear();
        for piece in &self.pieces {
            match piece {
                OutputPiece::Literal(literal) => {
                    let start = text.len();
                    text.push_str(literal);
                    match literals.last_mut().filter(|last| last.end == start) {
                        Some(last) => last.end = text.len(),
                        None => literals.push(start..text.len()),
                    }
                }
                OutputPiece::Cut(cut) => buffers.meter.write(text, buffers.text(source, *cut))?,
                OutputPiece::Begin(object) => {
                    buffers.begun.push(text.len());
                    span_objects.push(*object);
                }
                OutputPiece::End => {
                    spans.extend(buffers.begun.pop().map(|start| start..text.len()));
                }
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
        buffers: &ProgramBuffers<'_>,
        mut place: impl FnMut(usize, Range<usize>),
    ) {
        let mut at = 0;
        for piece in &self.pieces {
            match piece {
                OutputPiece::Literal(literal) => at += literal.len(),
                OutputPiece::Cut(cut) => {
                    let text = buffers.text(source, *cut);
                    let inner = trimmed(text, None, true, true);
                    if !inner.is_empty() {
                        let start = at + text.len() - trimmed(text, None, true, false).len();
                        place(self.text_of(*cut), start..start + inner.len());
                    }
                    at += text.len();
                }
                OutputPiece::Begin(_) | OutputPiece::End => {}
            }
        }
    }

    /// The place in every output of the byte `at` of this one, the output of [`Program::print`]. `None` if it is inside
    /// of a text, or where one begins.
    pub fn place_of(
        &self,
        source: &str,
        buffers: &ProgramBuffers<'_>,
        at: usize,
    ) -> Option<PrintedPlace> {
        if at == 0 {
            return Some(PrintedPlace { pieces: 0, bytes: 0 });
        }
        let mut start = 0;
        let mut texts_end = None;
        for (number, piece) in self.pieces.iter().enumerate() {
            let end = start + Self::length(piece, source, buffers);
            if start < at && at <= end {
                match piece {
                    OutputPiece::Literal(_) => {
                        return Some(PrintedPlace { pieces: number, bytes: at - start });
                    }
                    _ if at == end => {
                        texts_end = Some(PrintedPlace { pieces: number + 1, bytes: 0 });
                    }
                    _ => return None,
                }
            }
            start = end;
        }
        texts_end
    }

    /// The byte at which a place is in the output of [`Program::print`].
    pub fn byte_at(
        &self,
        place: PrintedPlace,
        source: &str,
        buffers: &ProgramBuffers<'_>,
    ) -> usize {
        let before = self.pieces[..place.pieces].iter();
        before.map(|piece| Self::length(piece, source, buffers)).sum::<usize>() + place.bytes
    }

    /// Bytes of a piece.
    fn length(piece: &OutputPiece, source: &str, buffers: &ProgramBuffers<'_>) -> usize {
        match piece {
            OutputPiece::Literal(literal) => literal.len(),
            OutputPiece::Cut(cut) => buffers.text(source, *cut).len(),
            OutputPiece::Begin(_) | OutputPiece::End => 0,
        }
    }

    /// True if marks inside of the blanks at the ends of texts change nothing in the output but add the
    /// marks.
    ///
    /// A mark can break a match in a text, but cannot make one.
    pub fn is_blind_to_marks(&self) -> bool {
        let blank = |text: &str| trimmed(text, None, true, true).is_empty();
        self.steps.iter().all(|step| match step {
            ProgramStep::Cut(TextRange::Whole(_) | TextRange::Trim { chars: None, .. })
            | ProgramStep::Check(Guard::Empty(_), _)
            | ProgramStep::Check(
                Guard::Equals(..)
                | Guard::Contains(..)
                | Guard::StartsWith(..)
                | Guard::EndsWith(..),
                false,
            ) => true,
            ProgramStep::Cut(TextRange::Trim { chars: Some(chars), .. }) => blank(chars),
            ProgramStep::Check(Guard::Contains(_, part), _) => {
                !part.is_empty() && !part.contains(crate::text::is_space)
            }
            _ => false,
        })
    }

    /// The number of the text that a cut is a part of.
    fn text_of(&self, cut: usize) -> usize {
        match self.steps.iter().filter(|step| step.cuts()).nth(cut) {
            Some(ProgramStep::Cut(TextRange::Whole(text))) => *text,
            Some(ProgramStep::Cut(
                TextRange::Trim { of, .. }
                | TextRange::First { of, .. }
                | TextRange::Last { of, .. }
                | TextRange::Part { of, .. },
            )) => self.text_of(*of),
            _ => 0,
        }
    }
}
