//! [`Splitter`]: a compiled pre-tokenizer, one of the known patterns or a sequence of splits.

use std::sync::Arc;

use super::cl100k::Cl100k;
use super::deepseek::DeepSeek;
use super::gpt2::Gpt2;
use super::o200k::O200k;
use super::regions::{digits, regions};
use super::split_cursor::{SplitCursor, position};
use super::steps::SplitStep;
use super::{deepseek, steps, window};

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
    /// Any other sequence of at most [`MOST_STEPS`](super::split_cursor::MOST_STEPS) splits.
    Steps(Arc<[SplitStep]>),
}

impl Splitter {
    /// Writes the ends of the next pieces of `text` to `ends`, and returns their number; 0 at the end of the
    /// text.
    ///
    /// `text` is UTF-8 from the cursor on, and its end is the end of the stretch.
    pub(crate) fn fill(&self, text: &[u8], cursor: &mut SplitCursor, ends: &mut [u32]) -> usize {
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
