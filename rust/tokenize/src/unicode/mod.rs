//! The character classes that pre-tokenizers test for, as the linked Hugging Face crate sees them.
//!
//! Its regular expressions come from a C library with Unicode tables of its own, and its normalizers from a crate
//! with older ones. So the tables here are made by asking that crate about every code point, and a test asks again.

mod changes;
mod strips;
mod tables;

use std::sync::LazyLock;

pub(crate) use changes::{Changes, accents, nmt};
pub(crate) use strips::stripped;
use tables::{
    BERT_RUNS, CLASS_RUNS, COMPATIBILITY_RUNS, COMPOSITION_RUNS, JOIN_RUNS, SCRIPT_RUNS, WORD_RUNS,
};

/// What a code point is to a pre-tokenizer's pattern. No code point is in two classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Class {
    /// In none of the classes below.
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

/// What a code point can do to a text under composition (NFC, NFKC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(dead_code, reason = "`Active` is what is left; the table has its number")]
pub(crate) enum Composition {
    /// Never changes, and nothing before it changes through it.
    Inert = 0,
    /// Changes nothing when it follows an inert one: a mark that composes with nothing but can be moved.
    Mark = 1,
    /// Changes, or may change what stands before it.
    Active = 2,
}

/// What BERT's normalizer and pre-tokenizer make of a code point: any number of these bits.
pub(crate) mod bert {
    /// Cleaning deletes it.
    pub(crate) const CONTROL: u8 = 1;
    /// It stands between words, and cleaning makes it a space.
    pub(crate) const WHITESPACE: u8 = 1 << 1;
    /// It is a word of its own.
    pub(crate) const PUNCTUATION: u8 = 1 << 2;
    /// Spaces are put around it.
    pub(crate) const IDEOGRAPH: u8 = 1 << 3;
    /// Decomposing it and taking the accents away changes it.
    pub(crate) const STRIPS: u8 = 1 << 4;
    /// Something of it is left then that can change places with marks beside it.
    pub(crate) const MOVES: u8 = 1 << 5;
    /// How many values the bits have together.
    pub(crate) const VALUES: usize = 1 << 6;
}

/// How many code points there are, surrogates included.
const CODE_POINTS: usize = 0x11_0000;

/// One byte a code point, so that a look-up is one load.
pub(crate) struct Table(Box<[u8]>);

impl Table {
    /// Fills the table from runs: each is the first code point and the value that holds from there on.
    pub(crate) fn from_runs(runs: &[(u32, u8)]) -> Self {
        let mut bytes = vec![0; CODE_POINTS].into_boxed_slice();
        for (index, (start, value)) in runs.iter().enumerate() {
            let end = runs.get(index + 1).map_or(CODE_POINTS, |(next, _)| *next as usize);
            bytes[*start as usize..end].fill(*value);
        }
        Self(bytes)
    }

    /// The table of a byte for each code point.
    pub(crate) fn from_bytes(bytes: Box<[u8]>) -> Self {
        Self(bytes)
    }

    /// The value of a code point.
    #[inline]
    pub(crate) fn get(&self, code_point: u32) -> u8 {
        self.0.get(code_point as usize).copied().unwrap_or(0)
    }
}

static CLASSES: LazyLock<Table> = LazyLock::new(|| Table::from_runs(CLASS_RUNS));
static BERT: LazyLock<Table> = LazyLock::new(|| Table::from_runs(BERT_RUNS));
static JOINS: LazyLock<Table> = LazyLock::new(|| Table::from_runs(JOIN_RUNS));
static CANONICAL: LazyLock<Table> = LazyLock::new(|| Table::from_runs(COMPOSITION_RUNS));
static COMPATIBILITY: LazyLock<Table> = LazyLock::new(|| Table::from_runs(COMPATIBILITY_RUNS));

/// The [`Class`] of every code point, as its number.
pub(crate) fn classes() -> &'static Table {
    &CLASSES
}

/// The [`Class`] of every code point as runs: where each begins, and its number.
pub(crate) fn class_runs() -> &'static [(u32, u8)] {
    CLASS_RUNS
}

/// The bits of [`bert`] of every code point.
pub(crate) fn bert_bits() -> &'static Table {
    &BERT
}

/// 1 for every code point that can be of one grapheme cluster with one beside it; two others never are.
pub(crate) fn joins() -> &'static Table {
    &JOINS
}

/// 1 for every code point that is `\w` to the `regex` crate.
pub(crate) fn words() -> &'static Table {
    static WORDS: LazyLock<Table> = LazyLock::new(|| Table::from_runs(WORD_RUNS));
    &WORDS
}

/// The script of every code point as a number; 0 for the characters that go with those before them.
pub(crate) fn scripts() -> &'static Table {
    static SCRIPTS: LazyLock<Table> = LazyLock::new(|| Table::from_runs(SCRIPT_RUNS));
    &SCRIPTS
}

/// Whether a character is `\w` to the matching of added tokens.
pub(crate) fn is_word(c: char) -> bool {
    let after = WORD_RUNS.partition_point(|(start, _)| *start <= u32::from(c));
    after.checked_sub(1).is_some_and(|run| WORD_RUNS[run].1 == 1)
}

/// The [`Composition`] of every code point under NFC, as its number.
pub(crate) fn canonical() -> &'static Table {
    &CANONICAL
}

/// The [`Composition`] of every code point under NFKC, as its number.
pub(crate) fn compatibility() -> &'static Table {
    &COMPATIBILITY
}

#[cfg(test)]
mod probe;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_what_the_linked_crate_says() {
        assert_eq!(probe::runs(&probe::classes()), CLASS_RUNS);
        assert_eq!(probe::runs(&probe::compositions(false)), COMPOSITION_RUNS);
        assert_eq!(probe::runs(&probe::compositions(true)), COMPATIBILITY_RUNS);
        assert_eq!(probe::runs(&probe::words()), WORD_RUNS);
        assert_eq!(probe::runs(&probe::bert()), BERT_RUNS);
        assert_eq!(probe::runs(&probe::joins()), JOIN_RUNS);
        assert_eq!(probe::runs(&probe::scripts()), SCRIPT_RUNS);
    }
}
