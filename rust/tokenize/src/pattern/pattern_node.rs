//! The syntax tree of a pattern, for the part of Oniguruma's language that an automaton can match exactly.

use super::code_points::CodePoints;

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PatternNode {
    /// Matches one character of a set.
    Set(CodePoints),
    /// Matches no character, if a condition on the next character holds.
    Ahead(Edge),
    /// Matches no character, if a condition on the previous character holds.
    Behind(Edge),
    /// Parts that follow each other.
    Sequence(Vec<PatternNode>),
    /// Alternatives: the first one with which the whole pattern matches.
    Choice(Vec<PatternNode>),
    /// A repeated part.
    Repeat(Box<PatternNode>, Repetitions),
}

/// A condition on the character at one side of a position.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Edge {
    /// The characters that fulfil the condition.
    pub(super) set: CodePoints,
    /// True if the end of the text fulfils the condition.
    pub(super) end: bool,
}

impl Edge {
    /// The opposite condition.
    pub(super) fn not(&self) -> Self {
        Self { set: self.set.complement(), end: !self.end }
    }
}

/// The number of repetitions of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repetitions {
    pub(super) least: u32,
    /// The most repetitions; `None` if there is no limit.
    pub(super) most: Option<u32>,
    /// True if fewer repetitions are tried first.
    pub(super) lazy: bool,
}

impl PatternNode {
    /// True if the part can match the empty text.
    pub(super) fn is_nullable(&self) -> bool {
        match self {
            Self::Set(_) => false,
            Self::Ahead(_) | Self::Behind(_) => true,
            Self::Sequence(parts) => parts.iter().all(Self::is_nullable),
            Self::Choice(parts) => parts.iter().any(Self::is_nullable),
            Self::Repeat(part, times) => times.least == 0 || part.is_nullable(),
        }
    }

    /// The set of a part that always matches exactly one character; `None` for other parts.
    pub(super) fn single(&self) -> Option<CodePoints> {
        match self {
            Self::Set(set) => Some(set.clone()),
            Self::Sequence(parts) if parts.len() == 1 => parts[0].single(),
            Self::Choice(parts) if !parts.is_empty() => {
                let sets: Option<Vec<_>> = parts.iter().map(Self::single).collect();
                Some(sets?.iter().fold(CodePoints::default(), |all, set| all.union(set)))
            }
            _ => None,
        }
    }
}
