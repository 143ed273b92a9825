//! The properties of a code point in BERT's normalizer and pre-tokenizer, as bits that can be combined.

/// Cleaning deletes it.
pub(crate) const CONTROL: u8 = 1;
/// It separates words, and cleaning makes it a space.
pub(crate) const WHITESPACE: u8 = 1 << 1;
/// It is a word of its own.
pub(crate) const PUNCTUATION: u8 = 1 << 2;
/// Spaces are put around it.
pub(crate) const IDEOGRAPH: u8 = 1 << 3;
/// Decomposing it and stripping its accents changes it.
pub(crate) const STRIPS: u8 = 1 << 4;
/// After that, a part of it can change places with neighbouring marks.
pub(crate) const MOVES: u8 = 1 << 5;
/// The number of combinations of the bits.
pub(crate) const VALUES: usize = 1 << 6;
