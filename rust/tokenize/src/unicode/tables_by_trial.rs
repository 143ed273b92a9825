//! Computes the Unicode tables by testing the linked Hugging Face crate on every code point; the generator
//! and a test use it.

use tokenizers::normalizers::{BertNormalizer, NFC, NFD, NFKC, NFKD};
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::pre_tokenizers::unicode_scripts::UnicodeScripts;
use tokenizers::pre_tokenizers::whitespace::Whitespace;
use tokenizers::{
    NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
    SplitDelimiterBehavior,
};
use unicode_segmentation::UnicodeSegmentation;

/// The patterns, each with the number of its class.
const PATTERNS: [(&str, u8); 11] = [
    (r"\p{Lu}", 1),
    (r"\p{Ll}", 2),
    (r"\p{Lt}", 3),
    (r"\p{Lm}", 4),
    (r"\p{Lo}", 5),
    (r"\p{M}", 6),
    (r"\p{N}", 7),
    (r"\p{P}", 8),
    (r"\p{S}", 9),
    (r"[^\S\r\n]", 10),
    (r"[\r\n]", 11),
];

fn scalars() -> impl Iterator<Item = char> {
    (0..=0x10_FFFF).filter_map(char::from_u32)
}

/// The values of all code points as runs: the first code point of each, and its value.
pub(crate) fn runs(values: &[u8]) -> Vec<(u32, u8)> {
    let mut runs = Vec::new();
    let mut last = None;
    for (code_point, value) in (0..).zip(values) {
        if last != Some(*value) {
            runs.push((code_point, *value));
            last = Some(*value);
        }
    }
    runs
}

/// Fills the surrogates, which no text contains, with the value before them, to have fewer runs.
fn close_surrogates(values: &mut [u8]) {
    let before = values[0xD7FF];
    values[0xD800..0xE000].fill(before);
}

/// The class of every code point; panics if one is in two classes, or if `\p{L}` is not the sum of its parts.
pub(crate) fn classes() -> Vec<u8> {
    let mut classes = vec![0; 0x11_0000];
    for (pattern, class) in PATTERNS {
        for c in matching(pattern) {
            assert_eq!(classes[c as usize], 0, "{c:?} is in two classes");
            classes[c as usize] = class;
        }
    }
    let letters = matching(r"\p{L}");
    assert_eq!(
        letters.len(),
        classes.iter().filter(|class| (1..=5).contains(*class)).count(),
        "a letter is of none of the five kinds"
    );
    close_surrogates(&mut classes);
    classes
}

/// All scalar values that a one-character pattern matches.
fn matching(pattern: &str) -> Vec<char> {
    let split =
        Split::new(SplitPattern::Regex(pattern.to_owned()), SplitDelimiterBehavior::Removed, true)
            .expect("the pattern is valid");
    let mut found = Vec::new();
    let all: Vec<char> = scalars().collect();
    for batch in all.chunks(4096) {
        let text: String = batch.iter().collect();
        let mut pre_tokenized = PreTokenizedString::from(text.as_str());
        split.pre_tokenize(&mut pre_tokenized).expect("splitting cannot fail");
        for (piece, _, _) in pre_tokenized.get_splits(OffsetReferential::Original, OffsetType::Byte)
        {
            found.extend(piece.chars());
        }
    }
    found
}

/// 1 for every code point that `\w` matches in the `regex` crate, which matches added tokens.
///
/// `Whitespace` splits with that crate, and keeps a word character with the letter before it.
pub(crate) fn words() -> Vec<u8> {
    let mut values = vec![0; 0x11_0000];
    let all: Vec<char> = scalars().collect();
    for batch in all.chunks(4096) {
        let text: String = batch.iter().flat_map(|c| [' ', 'a', *c]).collect();
        let mut pre_tokenized = PreTokenizedString::from(text.as_str());
        Whitespace {}.pre_tokenize(&mut pre_tokenized).expect("splitting cannot fail");
        for (piece, _, _) in pre_tokenized.get_splits(OffsetReferential::Original, OffsetType::Byte)
        {
            if let Some(c) = piece.chars().nth(1).filter(|_| piece.starts_with('a')) {
                values[c as usize] = 1;
            }
        }
    }
    close_surrogates(&mut values);
    values
}

fn normalized(step: &impl Normalizer, text: &str) -> String {
    let mut string = NormalizedString::from(text);
    step.normalize(&mut string).expect("normalizing cannot fail");
    string.get().to_owned()
}

/// The composition class of every code point under NFC (`compatible` false) or NFKC (true).
pub(crate) fn compositions(compatible: bool) -> Vec<u8> {
    let decompose = |text: &str| {
        if compatible { normalized(&NFKD, text) } else { normalized(&NFD, text) }
    };
    let compose =
        |text: &str| if compatible { normalized(&NFKC, text) } else { normalized(&NFC, text) };
    let mut values = vec![0; 0x11_0000];
    let mut text = String::new();
    for c in scalars() {
        text.clear();
        text.push(c);
        if compose(&text) != text {
            values[c as usize] = 2;
        }
        // A character that is second or later in a decomposition may compose with the character before it.
        for part in decompose(&text).chars().skip(1).chain(normalized(&NFD, &text).chars().skip(1))
        {
            values[part as usize] = 2;
        }
        // U+0334 has the lowest combining class, U+0315 a high one: a mark changes places with one of them.
        let (low, high) = (format!("{c}\u{334}"), format!("\u{315}{c}"));
        let moves = compose(&low) != format!("{}\u{334}", compose(&text))
            || compose(&high) != format!("\u{315}{}", compose(&text));
        if moves && values[c as usize] == 0 {
            values[c as usize] = 1;
        }
    }
    close_surrogates(&mut values);
    values
}

/// 1 for every code point that the reference's segmentation can join to a neighbour.
pub(crate) fn joins() -> Vec<u8> {
    let clusters = |text: &str| text.graphemes(true).count();
    let mut values = vec![0; 0x11_0000];
    for c in scalars() {
        let alone = c != '\r'
            && clusters(&format!("a{c}")) == 2
            && clusters(&format!("{c}a")) == 2
            && clusters(&format!("{c}{c}")) == 2;
        values[c as usize] = u8::from(!alone);
    }
    close_surrogates(&mut values);
    values
}

/// The bits of `unicode::bert` of every code point.
pub(crate) fn bert() -> Vec<u8> {
    let clean = BertNormalizer::new(true, false, Some(false), false);
    let space = BertNormalizer::new(false, true, Some(false), false);
    let strip = BertNormalizer::new(false, false, Some(true), false);
    let mut values = vec![0; 0x11_0000];
    let mut text = String::new();
    for c in scalars() {
        text.clear();
        text.push(c);
        let cleaned = normalized(&clean, &text);
        let left = normalized(&strip, &text);
        let cut = between_letters(c);
        let bits = [
            cleaned.is_empty(),
            cut == ["a", "a"],
            cut.len() == 3,
            normalized(&space, &text) == format!(" {c} "),
            left != text,
            left.chars().any(moves),
        ];
        let [control, whitespace, punctuation, ideograph, ..] = bits;
        // The compiled engine relies on these facts.
        assert_eq!(cleaned == " ", whitespace && !control, "{c:?} is cleaned otherwise");
        if whitespace || punctuation || ideograph {
            assert!(c.to_lowercase().eq([c]), "{c:?} has a lowercase form");
        }
        values[c as usize] = (0..).zip(bits).map(|(bit, set)| u8::from(set) << bit).sum();
    }
    close_surrogates(&mut values);
    values
}

/// The pieces into which BERT's pre-tokenizer cuts a character between two letters.
fn between_letters(c: char) -> Vec<String> {
    let mut pre_tokenized = PreTokenizedString::from(format!("a{c}a"));
    BertPreTokenizer.pre_tokenize(&mut pre_tokenized).expect("splitting cannot fail");
    let splits = pre_tokenized.get_splits(OffsetReferential::Original, OffsetType::Byte);
    splits.into_iter().map(|(piece, _, _)| piece.to_owned()).collect()
}

/// True if a decomposed character changes places with a neighbouring mark; see [`compositions`].
fn moves(c: char) -> bool {
    let (low, high) = (format!("{c}\u{334}"), format!("\u{315}{c}"));
    normalized(&NFD, &low) != low || normalized(&NFD, &high) != high
}

/// The script of every code point as a number; 0 for characters that `UnicodeScripts` keeps with the
/// characters before them.
pub(crate) fn scripts() -> Vec<u8> {
    let mut values = vec![0; 0x11_0000];
    let (latin, greek) = (behind('a', 'α'), behind('α', 'a'));
    // One character of each script so far.
    let mut known: Vec<char> = Vec::new();
    let mut last: Option<char> = None;
    for c in scalars().filter(|c| latin[*c as usize] || greek[*c as usize]) {
        let same = last.filter(|last| !is_cut(*last, c)).map(|last| values[last as usize]);
        values[c as usize] = same.unwrap_or_else(|| {
            let place = known.iter().position(|of| !is_cut(*of, c)).unwrap_or_else(|| {
                known.push(c);
                known.len() - 1
            });
            u8::try_from(place + 1).expect("fewer than 256 scripts")
        });
        last = Some(c);
    }
    close_surrogates(&mut values);
    values
}

/// For every code point, whether `UnicodeScripts` cuts between `before` and it; `after` has another script
/// than `before`.
fn behind(before: char, after: char) -> Vec<bool> {
    let mut cut = vec![false; 0x11_0000];
    let all: Vec<char> = scalars().collect();
    for batch in all.chunks(4096) {
        let text: String = batch.iter().flat_map(|c| [before, *c, after]).collect();
        for start in starts(&text) {
            if text[..start].ends_with(before)
                && let Some(c) = text[start..].chars().next()
                && c != after
            {
                cut[c as usize] = true;
            }
        }
    }
    // The two letters around each code point have different scripts.
    cut[after as usize] = true;
    cut
}

/// True if `UnicodeScripts` cuts between two characters.
fn is_cut(left: char, right: char) -> bool {
    starts(&format!("{left}{right}")).len() == 2
}

/// The starts of the pieces that `UnicodeScripts` makes of a text.
fn starts(text: &str) -> Vec<usize> {
    let mut pre_tokenized = PreTokenizedString::from(text);
    UnicodeScripts.pre_tokenize(&mut pre_tokenized).expect("splitting cannot fail");
    let splits = pre_tokenized.get_splits(OffsetReferential::Original, OffsetType::Byte);
    splits.into_iter().map(|(_, offsets, _)| offsets.0).collect()
}
