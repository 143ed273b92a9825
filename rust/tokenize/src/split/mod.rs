//! Pre-tokenization: cuts a stretch of text into pieces, as the reference's patterns do.
//!
//! The pieces cover the stretch without gaps, so a list of their ends is enough.
//!
//! [`Splitter`] is any of the patterns.

mod cl100k;
mod classify;
mod contraction;
mod deepseek;
mod gpt2;
mod o200k;
mod regions;
mod split_cursor;
mod splitter;
mod steps;
mod text;
mod window;

pub(crate) use cl100k::Cl100k;
#[cfg(target_arch = "x86_64")]
pub(crate) use classify::avx2 as classify_avx2;
pub(crate) use classify::{Masks, WINDOW, portable as classify_portable};
pub(crate) use contraction::Contraction;
pub(crate) use o200k::O200k;
pub(crate) use split_cursor::{MOST_STEPS, SplitCursor, position};
pub(crate) use splitter::Splitter;
pub(crate) use steps::{Behavior, SplitStep};
pub(crate) use text::decode;
pub(crate) use window::window;
