//! Pre-tokenization: cuts a stretch of text into pieces, as the reference's patterns do.
//!
//! The pieces cover the stretch without gaps, so a list of their ends is enough.

mod cl100k;
mod classify;
mod contraction;
mod cursor;
mod deepseek;
mod gpt2;
mod o200k;
mod steps;
mod text;
mod window;

use std::sync::Arc;

pub(crate) use cl100k::Cl100k;
#[cfg(target_arch = "x86_64")]
pub(crate) use classify::avx2 as classify_avx2;
pub(crate) use classify::{Masks, WINDOW, portable as classify_portable};
pub(crate) use contraction::Contraction;
pub(crate) use cursor::{Cursor, MOST_STEPS, Scan, position};
pub(crate) use deepseek::DeepSeek;
pub(crate) use gpt2::Gpt2;
pub(crate) use o200k::O200k;
pub(crate) use steps::{Behavior, SplitStep};
pub(crate) use text::{Stretch, decode};
pub(crate) use window::window;

/// A compiled pre-tokenizer.
#[derive(Clone, Debug)]
pub(crate) enum Splitter {
    /// The stretch is one piece.
    Whole,
    /// GPT-2's pattern.
    Gpt2,
    /// `Digits`, each digit alone or in runs, and GPT-2's pattern for the rest.
    DigitsGpt2 {
        /// True if every digit is a piece.
        alone: bool,
    },
    /// The pattern of cl100k and its variants.
    Cl100k(Cl100k),
    /// The pattern of o200k and its variants.
    O200k(O200k),
    /// `DeepSeek` V3's sequence of splits.
    DeepSeek,
    /// Any other sequence of at most [`MOST_STEPS`] splits.
    Steps(Arc<[SplitStep]>),
}

impl Splitter {
    /// Writes the ends of the next pieces of `text` to `ends`, and returns their number; 0 at the end of the
    /// text.
    ///
    /// `text` is UTF-8 from the cursor on, and its end is the end of the stretch.
    pub(crate) fn fill(&self, text: &[u8], cursor: &mut Cursor, ends: &mut [u32]) -> usize {
        match self {
            Self::Whole => {
                let left = cursor.at < text.len() && !ends.is_empty();
                if left {
                    ends[0] = position(text.len());
                    cursor.at = text.len();
                }
                usize::from(left)
            }
            Self::Gpt2 => window::fill(&Gpt2, text, cursor, ends),
            Self::Cl100k(pattern) => window::fill(pattern, text, cursor, ends),
            Self::O200k(pattern) => window::fill(pattern, text, cursor, ends),
            Self::DigitsGpt2 { alone } => {
                regions(&Gpt2, text, cursor, ends, |text, at| digits(text, at, *alone))
            }
            Self::DeepSeek => regions(&DeepSeek, text, cursor, ends, deepseek::region),
            Self::Steps(steps) => steps::fill(steps, text, cursor, ends),
        }
    }
}

#[inline]
fn scan(pattern: &impl Scan, text: &[u8], cursor: &mut Cursor, ends: &mut [u32]) -> usize {
    let stretch = Stretch::new(text);
    let mut count = 0;
    let mut at = cursor.at;
    for end in ends {
        if at >= text.len() {
            break;
        }
        at = pattern.piece_end(stretch, at);
        *end = position(at);
        count += 1;
    }
    cursor.at = at;
    count
}

/// Cuts region after region; `region` gives the end of a region, and whether it is a piece by itself.
fn regions(
    pattern: &impl Scan,
    text: &[u8],
    cursor: &mut Cursor,
    ends: &mut [u32],
    region: impl Fn(&[u8], usize) -> (usize, bool),
) -> usize {
    let mut count = 0;
    while count < ends.len() && cursor.at < text.len() {
        if cursor.at == cursor.region_end {
            let (end, whole) = region(text, cursor.at);
            cursor.region_end = end;
            if whole {
                cursor.at = end;
                ends[count] = position(end);
                count += 1;
                continue;
            }
        }
        count += scan(pattern, &text[..cursor.region_end], cursor, &mut ends[count..]);
    }
    count
}

/// The end of the region of digits or of other text at `start`, and whether it is a piece. Digits are those
/// of `char::is_numeric`.
fn digits(text: &[u8], start: usize, alone: bool) -> (usize, bool) {
    let numeric = |at: usize| {
        let (code_point, length) = decode(text, at);
        (char::from_u32(code_point).is_some_and(char::is_numeric), length)
    };
    let (first, length) = numeric(start);
    let mut at = start + length;
    if first && alone {
        return (at, true);
    }
    while at < text.len() {
        let (found, length) = numeric(at);
        if found != first {
            break;
        }
        at += length;
    }
    (at, first)
}
