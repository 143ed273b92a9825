//! [`Settled`]: a part of a text whose ids are known before the text is.

use std::ops::Range;

use super::spans::Source;

/// What stands in a text from one added token to another, with its ids, which are the same wherever the text stands.
///
/// Nothing looks across an added token: what is cut, normalized and merged lies between two of them. So a chat template's
/// `<|im_end|>\n<|im_start|>` needs to be encoded once, and what follows it, as `user\n`, with each content.
#[derive(Clone, Debug)]
pub struct Settled {
    /// What it stands in.
    pub(super) text: Box<str>,
    /// Where in there it stands.
    pub(super) range: Range<usize>,
    pub(super) ids: Vec<u32>,
    /// Where in the text its ids come from.
    pub(super) sources: Vec<Source>,
}

impl Settled {
    /// Where it stands in a text that has [the one it was made of](crate::Encoder::settle) at `at`; nothing if that is not
    /// there.
    pub(super) fn find(&self, text: &str, at: usize) -> Option<Range<usize>> {
        let there = text.as_bytes().get(at..)?.starts_with(self.text.as_bytes());
        there.then(|| at + self.range.start..at + self.range.end)
    }
}
