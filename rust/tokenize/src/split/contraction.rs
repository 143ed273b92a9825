//! The English contractions that patterns cut off: `'s 't 're 've 'm 'll 'd`.

use super::text::Stretch;

/// The contractions of a pattern, and their case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contraction {
    /// The pattern has none.
    None,
    /// Lower case only.
    Sensitive,
    /// `(?i:…)`, under which `ſ` (U+017F) counts as `s`.
    Insensitive,
}

impl Contraction {
    /// The end of the contraction whose apostrophe is at `at`, if there is one.
    #[inline]
    pub(crate) fn end(self, text: Stretch<'_>, at: usize) -> Option<usize> {
        if text.byte(at) != b'\'' {
            return None;
        }
        let letter = |offset: usize| match self {
            Self::None => 0,
            Self::Sensitive => text.byte(at + offset),
            Self::Insensitive => text.byte(at + offset).to_ascii_lowercase(),
        };
        match (letter(1), letter(2)) {
            (b's' | b't' | b'm' | b'd', _) => Some(at + 2),
            (b'r' | b'v', b'e') | (b'l', b'l') => Some(at + 3),
            // The two bytes of U+017F, which ASCII lower-casing does not change.
            (0xC5, 0xBF) if self == Self::Insensitive => Some(at + 3),
            _ => None,
        }
    }
}
