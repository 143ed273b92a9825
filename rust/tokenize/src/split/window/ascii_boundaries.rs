//! [`boundaries`]: the starts of pieces in a window of ASCII text, by the [rules](AsciiRules) of a pattern.

use crate::split::classify::{Masks, WINDOW};
use crate::split::contraction::Contraction;
use crate::split::text::Stretch;

/// The rules of a pattern for ASCII text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::split) struct AsciiRules {
    pub(in crate::split) shape: AsciiPattern,
    pub(in crate::split) contraction: Contraction,
    /// The most digits of a piece.
    pub(in crate::split) digits: u32,
}

/// The three kinds of patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::split) enum AsciiPattern {
    /// Only a space joins the text after it: letters, digits or signs. Newlines are whitespace like any
    /// other.
    Gpt2,
    /// Any blank or sign joins letters; signs include the newlines after them; whitespace is cut after its
    /// last newline.
    Cl100k,
    /// As `Cl100k`, but words are cut before upper case, contractions stay with their words, and signs
    /// include `/` after newlines.
    O200k,
}

/// The boundaries that a window proves: bit `i` is set if a piece begins at byte `i`. Bit 0 is never set.
#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled once for each way to make the masks")]
pub(super) fn boundaries(rules: AsciiRules, masks: Masks, length: usize, text: &[u8]) -> u64 {
    let valid = if length == WINDOW { u64::MAX } else { (1 << length) - 1 };
    let wide = masks.wide & valid;
    let known = (wide.trailing_zeros() as usize).min(length);
    if known < 2 {
        return 0;
    }
    let valid = if known == WINDOW { u64::MAX } else { (1 << known) - 1 };
    let [letter, digit, blank, space, newline] =
        [masks.letter, masks.digit, masks.blank, masks.space, masks.newline]
            .map(|mask| mask & valid);
    let sign = valid & !(letter | digit | blank | newline);
    // The next byte at most decides if a byte begins a piece.
    let mut decided = valid >> 1;
    let starts = |mask: u64| mask & !(mask << 1);
    let white = blank | newline;
    let after_space = space << 1;
    // A single sign that no space joins: it may join the letters after it, or begin a contraction.
    let lone = sign & !(sign << 1) & !(sign >> 1) & !after_space;
    let mut found = match rules.shape {
        AsciiPattern::Gpt2 => {
            let last = white & !(white >> 1);
            let others = starts(letter) | starts(digit) | starts(sign);
            starts(white) | last | others & !after_space
        }
        AsciiPattern::Cl100k | AsciiPattern::O200k => {
            let absorbed = newline & !newline.wrapping_add(newline & (sign << 1));
            let free = white & !absorbed;
            // If a blank comes before a newline, the text far after them decides which blanks begin a piece.
            // A newline may also follow the known bytes.
            let mut rare = newline & (blank << 1) | blank & (1 << (known - 1));
            if rules.shape == AsciiPattern::O200k {
                rare |= masks.slash & (newline << 1);
            }
            if rare != 0 {
                let first = rare & rare.wrapping_neg();
                let before = starts(white) & (first | (first - 1));
                // The start of this whitespace is decided, and nothing after it.
                decided &= u64::MAX >> before.leading_zeros();
            }
            let last = blank & !(white >> 1);
            let words = starts(letter) & !(blank << 1) & !(lone << 1);
            let mut numbers = starts(digit);
            if rules.digits == 1 {
                numbers = digit;
            } else if rules.digits <= 3 {
                let whole = match rules.digits {
                    2 => digit & (digit << 1),
                    _ => digit & (digit << 1) & (digit << 2),
                };
                let mut next = (numbers << rules.digits) & whole;
                while next != 0 {
                    numbers |= next;
                    next = (next << rules.digits) & whole;
                }
            }
            starts(free) | starts(blank) | last | words | numbers | starts(sign) & !after_space
        }
    };
    let mut end_of_last = 0;
    let mut candidates = masks.apostrophe & lone & (letter >> 1);
    if rules.shape == AsciiPattern::O200k {
        let upper = masks.upper & letter;
        found |= upper & ((letter & !upper) << 1);
        candidates &= letter << 1;
    }
    if rules.contraction == Contraction::None {
        candidates = 0;
    }
    while candidates != 0 {
        let at = candidates.trailing_zeros() as usize;
        candidates &= candidates - 1;
        let kept = rules.shape == AsciiPattern::O200k;
        if kept && at + 2 >= known {
            // The text after it decides whether the word continues here.
            decided &= (1 << at) - 1;
            break;
        }
        if kept && at == end_of_last {
            continue;
        }
        if let Some(end) = rules.contraction.end(Stretch::new(text), at) {
            // A contraction is not cut; if it stays with its word, there is no cut before it either.
            let first = if kept { at } else { at + 1 };
            found &= !(((1_u64 << (end - first)) - 1) << first);
            if end < WINDOW {
                found |= 1 << end;
            }
            end_of_last = end;
        }
    }
    found & decided & !1
}
