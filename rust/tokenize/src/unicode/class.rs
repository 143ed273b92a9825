//! [`Class`]: the classes of code points in the patterns of pre-tokenizers.

/// The class of a code point in the patterns of pre-tokenizers. No code point is in two classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Class {
    /// A code point in none of the other classes.
    Other = 0,
    /// `\p{Lu}`
    Upper = 1,
    /// `\p{Ll}`
    Lower = 2,
    /// `\p{Lt}`
    Title = 3,
    /// `\p{Lm}`
    Modifier = 4,
    /// `\p{Lo}`
    Caseless = 5,
    /// `\p{M}`
    Mark = 6,
    /// `\p{N}`
    Number = 7,
    /// `\p{P}`
    Punctuation = 8,
    /// `\p{S}`
    Symbol = 9,
    /// `\s`, but neither CR nor LF.
    Space = 10,
    /// CR or LF.
    Newline = 11,
}
