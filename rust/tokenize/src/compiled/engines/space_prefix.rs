//! `▁`, the character that stands for a space, and [`SpacePrefix`], where one is put in front of a text.

/// The bytes of `▁`.
pub(crate) const META: &str = "\u{2581}";

/// `▁` as a character.
pub(crate) const META_CHARACTER: char = '\u{2581}';

/// The rule for putting a space in front of a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpacePrefix {
    /// Never.
    Never,
    /// Always, even if the stretch begins with a space.
    Always,
    /// Unless the stretch begins with a space.
    Unspaced,
    /// At the start of the text, unless it begins with a space.
    First,
}
