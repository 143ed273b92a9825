//! [`Program`]: what a template does to conversations of one outline, as pieces to be put together.
//!
//! A [`Trace`](super::trace::Trace) makes one. It serves every conversation about whose texts its questions have the
//! same answers; for others, another run of the interpreter makes another program.

use std::ops::Range;
use std::rc::Rc;

use memchr::memmem;

use super::methods::trimmed;

/// A text, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// A text of the conversation, by its number.
    Whole(usize),
    /// A cut without these characters, or without whitespace, at its ends.
    Trim { of: usize, chars: Option<Rc<str>>, left: bool, right: bool },
    /// What stands before the first separator.
    First { of: usize, separator: Rc<str> },
    /// What stands behind the last separator.
    Last { of: usize, separator: Rc<str> },
}

/// What can be asked about a cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Empty(usize),
    Equals(usize, Rc<str>),
    Contains(usize, Rc<str>),
    StartsWith(usize, Rc<str>),
    EndsWith(usize, Rc<str>),
}

/// What comes before anything is printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The next cut.
    Cut(Cut),
    /// A question, and the answer that the rest depends on.
    Ask(Question, bool),
}

/// What is printed.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    /// The same for all conversations.
    Literal(Rc<str>),
    /// A cut, by its number among the cuts.
    Cut(usize),
    /// Here the assistant begins to write.
    Begin,
    /// Here it ends.
    End,
}

/// What a template does to conversations of one outline.
#[derive(Debug)]
pub(super) struct Program {
    steps: Vec<Step>,
    pieces: Vec<Piece>,
}

/// What a program works with, kept from record to record.
#[derive(Debug, Default)]
pub(super) struct Bench {
    cuts: Vec<Range<usize>>,
    begun: Vec<usize>,
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

    /// Whether the program serves a conversation of these texts, which are parts of `source`.
    ///
    /// Its cuts are left in `bench`, where [`Program::print`] finds them.
    pub(super) fn serves(&self, source: &str, texts: &[Range<usize>], bench: &mut Bench) -> bool {
        bench.cuts.clear();
        self.steps.iter().all(|step| match step {
            Step::Cut(cut) => {
                let cut = cut.range(source, texts, &bench.cuts);
                bench.cuts.push(cut);
                true
            }
            Step::Ask(question, answer) => {
                question.holds(|cut| &source[bench.cuts[cut].clone()]) == *answer
            }
        })
    }

    /// Appends what the template prints to `text`, and to `spans` what the assistant writes of it.
    pub(super) fn print(
        &self,
        source: &str,
        bench: &mut Bench,
        text: &mut String,
        spans: &mut Vec<Range<usize>>,
    ) {
        bench.begun.clear();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => text.push_str(literal),
                Piece::Cut(cut) => text.push_str(&source[bench.cuts[*cut].clone()]),
                Piece::Begin => bench.begun.push(text.len()),
                Piece::End => spans.extend(bench.begun.pop().map(|start| start..text.len())),
            }
        }
    }

    /// Tells where the texts are printed in what [`Program::print`] makes; blanks at their ends are left out, and so are
    /// texts of nothing but blanks.
    pub(super) fn places(
        &self,
        source: &str,
        bench: &Bench,
        mut place: impl FnMut(usize, Range<usize>),
    ) {
        let mut at = 0;
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => at += literal.len(),
                Piece::Cut(cut) => {
                    let text = &source[bench.cuts[*cut].clone()];
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
            | Step::Ask(_, false) => true,
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

    /// A program that is wrong: it serves texts that it was not made for.
    #[cfg(test)]
    pub(super) fn ask_no_more(&mut self) {
        self.steps.retain(|step| matches!(step, Step::Cut(_)));
    }

    /// The text that a cut is a part of.
    fn text_of(&self, cut: usize) -> usize {
        let cuts = self.steps.iter().filter_map(|step| match step {
            Step::Cut(cut) => Some(cut),
            Step::Ask(..) => None,
        });
        match cuts.clone().nth(cut) {
            Some(Cut::Whole(text)) => *text,
            Some(Cut::Trim { of, .. } | Cut::First { of, .. } | Cut::Last { of, .. }) => {
                self.text_of(*of)
            }
            None => 0,
        }
    }
}

impl Cut {
    fn range(&self, source: &str, texts: &[Range<usize>], cuts: &[Range<usize>]) -> Range<usize> {
        match self {
            Self::Whole(text) => texts[*text].clone(),
            Self::Trim { of, chars, left, right } => {
                let Range { start, end } = cuts[*of].clone();
                let chars = chars.as_deref();
                let rest = trimmed(&source[start..end], chars, *left, false);
                let start = end - rest.len();
                start..start + trimmed(rest, chars, false, *right).len()
            }
            Self::First { of, separator } => {
                let Range { start, end } = cuts[*of].clone();
                let found = memmem::find(&source.as_bytes()[start..end], separator.as_bytes());
                start..found.map_or(end, |at| start + at)
            }
            Self::Last { of, separator } => {
                let Range { start, end } = cuts[*of].clone();
                let separator = separator.as_bytes();
                let found = memmem::find_iter(&source.as_bytes()[start..end], separator).last();
                found.map_or(start, |at| start + at + separator.len())..end
            }
        }
    }
}

impl Question {
    fn holds<'s>(&self, cut: impl Fn(usize) -> &'s str) -> bool {
        match self {
            Self::Empty(of) => cut(*of).is_empty(),
            Self::Equals(of, text) => *cut(*of) == **text,
            Self::Contains(of, part) => {
                memmem::find(cut(*of).as_bytes(), part.as_bytes()).is_some()
            }
            Self::StartsWith(of, text) => cut(*of).starts_with(&**text),
            Self::EndsWith(of, text) => cut(*of).ends_with(&**text),
        }
    }
}
