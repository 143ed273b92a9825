//! [`Flow`]: how a template goes on after a statement; [`LeftBehind`]: what a part of it has done to others.

/// The control flow after a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Next,
    Break,
    Continue,
}

/// The effects of a turn of a loop on others: assignments, and reads of each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftBehind {
    /// Assignments to attributes of namespaces.
    pub(crate) assigned: usize,
    /// Reads of attributes of `loop`.
    pub(crate) looked: usize,
    /// Generators that were made.
    pub(crate) generators: usize,
}
