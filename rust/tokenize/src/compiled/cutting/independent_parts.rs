//! [`StableSegment`]: a part of a text whose ids do not depend on the surrounding text.

use std::ops::Range;

use crate::compiled::spans::TokenRange;

/// A part of a text, from one added token to another, with its ids, which are the same in every surrounding
/// text.
///
/// No step looks across an added token: cutting, normalizing and merging happen between two of them. So a
/// chat template's `<|im_end|>\n<|im_start|>` is encoded once. The text after it, such as `user\n`, is
/// encoded with each content.
#[derive(Clone, Debug)]
pub struct StableSegment {
    /// The text that contains the part.
    pub(crate) text: Box<str>,
    /// The byte range of the part in `text`.
    pub(crate) range: Range<usize>,
    pub(crate) ids: Vec<u32>,
    /// The source ranges of the ids, in `text`.
    pub(crate) sources: Vec<TokenRange>,
}

impl StableSegment {
    /// The range of the part in another text that has [the text it was made of](crate::Encoder::stable_segment) at
    /// `at`; `None` if that text does not have it there.
    pub(crate) fn find(&self, text: &str, at: usize) -> Option<Range<usize>> {
        let there = text.as_bytes().get(at..)?.starts_with(self.text.as_bytes());
        there.then(|| at + self.range.start..at + self.range.end)
    }
}
