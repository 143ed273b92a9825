//! The tokens that a span touches.

use fastpack_tokenize::SpecialTokens::{Add, Omit};
use proptest::prelude::*;

use crate::small::{all, bytes, encode, load, pieces};

#[test]
fn every_token_of_an_emoji_is_touched() {
    let tokenizer = load(&bytes());
    let out = encode(&tokenizer, "a😀b", &[1..5], Omit);
    assert_eq!(out.ids.len(), 6);
    assert_eq!(out.touched, [1..5]);
}

#[test]
fn a_token_belongs_to_the_span_that_holds_its_leading_space() {
    let tokenizer = load(&bytes());
    let out = encode(&tokenizer, "a the", &[1..2, 2..5], Omit);
    assert_eq!(out.ids.len(), 2);
    assert_eq!(out.touched, [1..2, 1..2]);
}

#[test]
fn a_composed_letter_comes_from_both_of_its_parts() {
    let tokenizer = load(&bytes());
    let text = "ae\u{301}b";
    let out = encode(&tokenizer, text, &[1..2, 2..4, 4..5], Omit);
    assert_eq!(tokenizer.decode(&out.ids).expect("ids of its own"), "aéb");
    assert_eq!(out.touched, [1..2, 1..2, 2..3]);
}

#[test]
fn byte_fallback_tokens_come_from_their_letter() {
    let tokenizer = load(&pieces());
    let out = encode(&tokenizer, "hi😀ab", &[2..6], Omit);
    assert_eq!(out.touched, [1..5]);
}

#[test]
fn tokens_of_the_post_processor_are_touched_by_no_span() {
    let tokenizer = load(&bytes());
    let out = encode(&tokenizer, "<s>ab", &[0..5], Add);
    assert_eq!(out.ids.len(), 3);
    assert_eq!(out.ids[0], out.ids[1], "the text's own `<s>` stands beside the added one");
    assert_eq!(out.touched, [1..3]);
}

#[test]
fn empty_spans_and_empty_texts_touch_nothing() {
    let tokenizer = load(&bytes());
    let out = encode(&tokenizer, "ab", &[0..0, 1..1, 2..2], Omit);
    assert!(out.touched.iter().all(std::ops::Range::is_empty));
    let out = encode(&tokenizer, "", &[0..0], Add);
    assert_eq!(out.ids.len(), 1);
    assert!(out.touched[0].is_empty());
}

#[test]
fn encoding_appends_and_counts_from_what_is_there() {
    let tokenizer = load(&bytes());
    let mut out = encode(&tokenizer, "ab", &[0..2], Omit);
    tokenizer.encoder().encode("the", &[0..3], Omit, &mut out).expect("every text has ids");
    assert_eq!(out.touched[1].end, out.ids.len());
    assert_eq!(out.touched[1].start, out.touched[0].end);
}

proptest! {
    #[test]
    fn a_full_cover_touches_all_tokens_and_spans_change_no_id(text in "([ aAbethil.]|é|e\u{301}|\u{327}|中|😀|<s>|<|end|>|\n){0,40}", cuts in prop::collection::vec(0usize..200, 0..6)) {
        for (name, value) in all() {
            let tokenizer = load(&value);
            let mut cuts: Vec<usize> = cuts.iter().copied().filter(|cut| text.is_char_boundary(*cut)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let spans: Vec<_> = cuts.windows(2).map(|pair| pair[0]..pair[1]).collect();
            let plain = encode(&tokenizer, &text, &[], Add);
            let out = encode(&tokenizer, &text, &spans, Add);
            prop_assert_eq!(&plain.ids, &out.ids, "{}", name);
            prop_assert!(plain.touched.is_empty());
            prop_assert_eq!(out.touched.len(), spans.len());
            let added = usize::from(name == "bytes");
            for position in added..out.ids.len() {
                prop_assert!(out.touched.iter().any(|range| range.contains(&position)), "{} {:?} {}", name, text, position);
            }
            prop_assert!(out.touched.iter().all(|range| range.is_empty() || range.start >= added));
        }
    }
}
