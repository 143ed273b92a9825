//! What a pattern says, as a tree: the part of Oniguruma's language that an automaton can follow exactly.

use super::class::CodePoints;

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// One character of a set.
    Set(CodePoints),
    /// No character, where a condition on the next one holds.
    Ahead(Edge),
    /// No character, where a condition on the one before holds.
    Behind(Edge),
    /// One part behind the other.
    Sequence(Vec<Node>),
    /// The first of the parts with which the pattern matches.
    Choice(Vec<Node>),
    /// A part again and again.
    Repeat(Box<Node>, Times),
}

/// A condition on the character at one side of a place.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Edge {
    /// The characters that may stand there.
    pub(super) set: CodePoints,
    /// Whether the text may end there.
    pub(super) end: bool,
}

impl Edge {
    /// The opposite condition.
    pub(super) fn not(&self) -> Self {
        Self { set: self.set.complement(), end: !self.end }
    }
}

/// How often a part is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) least: u32,
    /// `None` if there is no limit.
    pub(super) most: Option<u32>,
    /// Whether as few as possible are tried first.
    pub(super) lazy: bool,
}

impl Node {
    /// Whether the part can match no characters.
    pub(super) fn is_nullable(&self) -> bool {
        match self {
            Self::Set(_) => false,
            Self::Ahead(_) | Self::Behind(_) => true,
            Self::Sequence(parts) => parts.iter().all(Self::is_nullable),
            Self::Choice(parts) => parts.iter().any(Self::is_nullable),
            Self::Repeat(part, times) => times.least == 0 || part.is_nullable(),
        }
    }

    /// The set of a part that always matches one character, or nothing.
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
