//! [`PreTokenizerStage`]: one step of a pre-tokenizer.

use crate::compiled::engines::space_prefix::SpacePrefix;
use crate::split::{SplitStep, Splitter};

/// One step of a pre-tokenizer.
#[derive(Debug)]
pub(crate) enum PreTokenizerStage {
    /// Splits that keep all text.
    Cut(Splitter),
    /// A split that removes its delimiters.
    Remove(SplitStep),
    /// Writes a character for each space, puts one in front of pieces as `prefix` says, and cuts before each
    /// if `split`.
    Metaspace { replacement: char, prefix: SpacePrefix, split: bool },
    /// Puts a space in front of each piece that does not begin with one.
    PrefixSpace,
    /// Writes each byte as the character that stands for it.
    Bytes,
    /// Cuts between characters of different scripts.
    Scripts,
    /// Cuts after every so many characters.
    FixedLength(usize),
}

impl PreTokenizerStage {
    /// True if the stage changes the text.
    pub(super) fn rewrites(&self) -> bool {
        matches!(self, Self::Metaspace { .. } | Self::PrefixSpace | Self::Bytes)
    }

    /// True if the stage treats a piece by its place in the text.
    pub(super) fn asks_place(&self) -> bool {
        matches!(self, Self::Metaspace { prefix: SpacePrefix::First, .. })
    }
}
