//! [`PatternParser`]: the place of a parser in the text of a pattern.

/// The deepest nesting of groups.
pub(super) const DEEPEST: usize = 64;

/// A parser of a pattern.
pub(super) struct PatternParser<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    pub(super) depth: usize,
    /// True if case is ignored at this position.
    pub(super) insensitive: bool,
    /// The letter just before this position, if its case is ignored.
    pub(super) folded: Option<char>,
}

pub(super) type ParsedPattern<T> = Result<T, String>;
