//! Compares windows with the scanner that takes one piece at a time, on every branch.

use proptest::prelude::*;

use super::fill_window::{WindowedScanner, fill, fill_with};
use crate::split::cl100k::Cl100k;
use crate::split::classify::portable;
use crate::split::contraction::Contraction;
use crate::split::gpt2::Gpt2;
use crate::split::o200k::O200k;
use crate::split::split_cursor::{SplitCursor, position};
use crate::split::text::Stretch;

const CONTRACTIONS: [Contraction; 3] =
    [Contraction::None, Contraction::Sensitive, Contraction::Insensitive];

/// The ends of all pieces, found by the scanner alone.
fn scanned(pattern: &impl WindowedScanner, text: &[u8], start: usize) -> Vec<u32> {
    let (mut at, mut ends) = (start, Vec::new());
    while at < text.len() {
        at = pattern.piece_end(Stretch::new(text), at);
        ends.push(position(at));
    }
    ends
}

type Fill<P> = fn(&P, &[u8], &mut SplitCursor, &mut [u32]) -> usize;

fn filled<P: WindowedScanner>(pattern: &P, text: &[u8], start: usize, fill: Fill<P>) -> Vec<u32> {
    let (mut cursor, mut all, mut ends) = (SplitCursor::new(start), Vec::new(), [0; 7]);
    loop {
        let count = fill(pattern, text, &mut cursor, &mut ends);
        if count == 0 {
            return all;
        }
        all.extend_from_slice(&ends[..count]);
    }
}

fn check<P: WindowedScanner>(pattern: &P, text: &str) {
    let start = text.char_indices().nth(2).map_or(0, |(at, _)| at);
    for start in [0, start] {
        let expected = scanned(pattern, text.as_bytes(), start);
        let portable: Fill<P> =
            |pattern, text, cursor, ends| fill_with(pattern, text, cursor, ends, portable);
        assert_eq!(filled(pattern, text.as_bytes(), start, portable), expected, "{text:?}");
        assert_eq!(filled(pattern, text.as_bytes(), start, fill), expected, "{text:?}");
    }
}

fn check_all(text: &str) {
    check(&Gpt2, text);
    for contraction in CONTRACTIONS {
        for digits in [1, 2, 3, u32::MAX] {
            for marks in [false, true] {
                check(&Cl100k { contraction, digits, marks }, text);
            }
            check(&O200k { contraction, digits }, text);
        }
    }
}

#[test]
fn blanks_behind_a_newline_wait_for_what_follows_the_window() {
    for blanks in 1..8 {
        for before in 0..70 {
            check_all(&format!("{}\n{}\nx", "a".repeat(before), "\t".repeat(blanks)));
            check_all(&format!("{}!\n{}/\nx", "a".repeat(before), "\n".repeat(blanks)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn windows_cut_as_the_scanner_does(
        text in "[ \n\r\ta-eA-Elrstv'’!?/.(0-3éſ中\u{301}]{0,200}",
    ) {
        check_all(&text);
    }

    #[test]
    fn windows_cut_whitespace_as_the_scanner_does(text in "[a-z ]{0,70}[ \n\ta.'/]{0,90}") {
        check_all(&text);
    }

    #[test]
    fn windows_cut_prose_as_the_scanner_does(
        text in "(( |\n|  |\t| \n|\n\n)?([a-z]{1,12}|[A-Z][a-z]{1,9}|[0-9]{1,7}|'(s|t|re|ve|ll|d|S|lL|x)|[.,!?/()'\"-]{1,3}\n?/?)){0,60}",
    ) {
        check_all(&text);
    }
}
