//! The tables of all properties of code points, such as [`classes`], [`words`] and [`scripts`].

use std::sync::LazyLock;

use super::code_point_table::CodePointTable;
use super::tables::{
    BERT_RUNS, CLASS_RUNS, COMPATIBILITY_RUNS, COMPOSITION_RUNS, JOIN_RUNS, SCRIPT_RUNS, WORD_RUNS,
};

static CLASSES: LazyLock<CodePointTable> = LazyLock::new(|| CodePointTable::from_runs(CLASS_RUNS));

static BERT: LazyLock<CodePointTable> = LazyLock::new(|| CodePointTable::from_runs(BERT_RUNS));

static JOINS: LazyLock<CodePointTable> = LazyLock::new(|| CodePointTable::from_runs(JOIN_RUNS));

static CANONICAL: LazyLock<CodePointTable> =
    LazyLock::new(|| CodePointTable::from_runs(COMPOSITION_RUNS));

static COMPATIBILITY: LazyLock<CodePointTable> =
    LazyLock::new(|| CodePointTable::from_runs(COMPATIBILITY_RUNS));

/// The [`Class`](super::class::Class) of every code point, as its number.
pub(crate) fn classes() -> &'static CodePointTable {
    &CLASSES
}

/// The [`Class`](super::class::Class) of every code point as runs: the first code point of each, and the class's number.
pub(crate) fn class_runs() -> &'static [(u32, u8)] {
    CLASS_RUNS
}

/// The bits of [`bert`](super::bert) of every code point.
pub(crate) fn bert_bits() -> &'static CodePointTable {
    &BERT
}

/// 1 for every code point that can share a grapheme cluster with a neighbour; two code points with 0 never
/// share one.
pub(crate) fn joins() -> &'static CodePointTable {
    &JOINS
}

/// 1 for every code point that `\w` matches in the `regex` crate.
pub(crate) fn words() -> &'static CodePointTable {
    static WORDS: LazyLock<CodePointTable> = LazyLock::new(|| CodePointTable::from_runs(WORD_RUNS));
    &WORDS
}

/// The script of every code point as a number; 0 for code points that stay with the characters before them.
pub(crate) fn scripts() -> &'static CodePointTable {
    static SCRIPTS: LazyLock<CodePointTable> =
        LazyLock::new(|| CodePointTable::from_runs(SCRIPT_RUNS));
    &SCRIPTS
}

/// True if a character counts as `\w` when added tokens are matched.
pub(crate) fn is_word(c: char) -> bool {
    let after = WORD_RUNS.partition_point(|(start, _)| *start <= u32::from(c));
    after.checked_sub(1).is_some_and(|run| WORD_RUNS[run].1 == 1)
}

/// The [`Composition`](super::composition::Composition) of every code point under NFC, as its number.
pub(crate) fn canonical() -> &'static CodePointTable {
    &CANONICAL
}

/// The [`Composition`](super::composition::Composition) of every code point under NFKC, as its number.
pub(crate) fn compatibility() -> &'static CodePointTable {
    &COMPATIBILITY
}

#[cfg(test)]
mod tests {
    use super::super::tables_by_trial;
    use super::*;

    #[test]
    fn the_tables_are_what_the_linked_crate_says() {
        assert_eq!(tables_by_trial::runs(&tables_by_trial::classes()), CLASS_RUNS);
        assert_eq!(tables_by_trial::runs(&tables_by_trial::compositions(false)), COMPOSITION_RUNS);
        assert_eq!(tables_by_trial::runs(&tables_by_trial::compositions(true)), COMPATIBILITY_RUNS);
        assert_eq!(tables_by_trial::runs(&tables_by_trial::words()), WORD_RUNS);
        assert_eq!(tables_by_trial::runs(&tables_by_trial::bert()), BERT_RUNS);
        assert_eq!(tables_by_trial::runs(&tables_by_trial::joins()), JOIN_RUNS);
        assert_eq!(tables_by_trial::runs(&tables_by_trial::scripts()), SCRIPT_RUNS);
    }
}
