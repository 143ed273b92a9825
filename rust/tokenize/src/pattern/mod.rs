//! Regular expressions in Oniguruma's language, compiled to automata with tables over classes of characters.
//!
//! Two patterns are compared by their matches, not by their spelling: [`Pattern::means`].

mod automaton;
mod automaton_states;
mod bracket;
mod code_points;
mod instructions;
mod matchless_tails;
mod parse;
mod pattern_node;
mod pattern_parser;

pub(crate) use automaton::Automaton;
pub(crate) use code_points::CodePoints;
use instructions::PatternProgram;
pub(crate) use matchless_tails::Tails;
use parse::parse;
use pattern_node::{PatternNode, Repetitions};

/// Bytes of the longest pattern that is read.
const LONGEST: usize = 1 << 14;

/// The number of characters of a kind that a pattern matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// One character.
    One,
    /// As many characters as there are.
    Run,
}

/// A pattern in the supported language.
pub(crate) struct Pattern {
    program: PatternProgram,
}

impl Pattern {
    /// Parses a pattern; the error names the part that is not supported.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("a pattern of {} bytes", text.len()));
        }
        Self::of(&parse(text)?)
    }

    /// The pattern that matches one text, which is not empty.
    pub(crate) fn literal(text: &str) -> Result<Self, String> {
        Self::of(&PatternNode::Sequence(
            text.chars().map(|c| PatternNode::Set(CodePoints::of(c))).collect(),
        ))
    }

    /// The pattern that matches one character that `is` accepts.
    pub(crate) fn one(is: impl Fn(char) -> bool) -> Result<Self, String> {
        Self::of(&PatternNode::Set(CodePoints::all_that(is)))
    }

    /// The pattern that matches characters of the first of `kinds` that accepts them: one of them, or as many
    /// as there are.
    pub(crate) fn of_kinds(kinds: &[(&dyn Fn(char) -> bool, Length)]) -> Result<Self, String> {
        let part = |(is, length): &(&dyn Fn(char) -> bool, Length)| {
            let set = PatternNode::Set(CodePoints::all_that(is));
            match length {
                Length::One => set,
                Length::Run => PatternNode::Repeat(
                    Box::new(set),
                    Repetitions { least: 1, most: None, lazy: false },
                ),
            }
        };
        Self::of(&PatternNode::Choice(kinds.iter().map(part).collect()))
    }

    fn of(node: &PatternNode) -> Result<Self, String> {
        if node.is_nullable() {
            return Err("a pattern that matches nothing".to_owned());
        }
        Ok(Self { program: PatternProgram::new(node)? })
    }

    /// True if both patterns have the same matches in every text.
    pub(crate) fn means(&self, other: &Self) -> bool {
        automaton_states::are_equal(&self.program, &other.program)
    }

    /// The automaton that searches texts.
    pub(crate) fn automaton(&self) -> Result<Automaton, String> {
        Automaton::new(&self.program)
    }
}

#[cfg(test)]
mod tests;
