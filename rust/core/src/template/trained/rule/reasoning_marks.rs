//! [`ReasoningMarks`]: the marks around reasoning that stands in the content of a message.

use std::ops::Range;

/// The marks around reasoning in the text of a template with unknown marks.
const USUAL: [&str; 2] = ["<think>", "</think>"];

/// Reasoning and answer that cannot be told apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct MixedParts;

/// The marks around reasoning in the content of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReasoningMarks {
    opening: Vec<String>,
    closing: Vec<String>,
}

impl ReasoningMarks {
    /// The usual ones, and others.
    pub(in crate::template) fn with(opening: Vec<String>, closing: Vec<String>) -> Self {
        let [open, close] = USUAL.map(str::to_owned);
        let mut marks = Self { opening, closing };
        marks.opening.push(open);
        marks.closing.push(close);
        for marks in [&mut marks.opening, &mut marks.closing] {
            // The longest of those that begin at one place is found first.
            marks.sort_by(|one, other| other.len().cmp(&one.len()).then(one.cmp(other)));
            marks.dedup();
        }
        marks
    }

    /// The words of the reasoning with which a text begins, and the byte where the answer begins; `None` without
    /// reasoning.
    pub(super) fn reasoning_in(
        &self,
        text: &str,
    ) -> Result<Option<(Range<usize>, usize)>, MixedParts> {
        let begin = text.len() - text.trim_start().len();
        let opening = first(&self.opening, &text[begin..]).filter(|found| found.start == 0);
        let opened = begin + opening.as_ref().map_or(0, |found| found.end);
        let Some(closing) = first(&self.closing, &text[opened..]) else {
            // A thought without an end.
            return if opening.is_some() { Err(MixedParts) } else { Ok(None) };
        };
        let inner = &text[opened..opened + closing.start];
        let end = opened + closing.end;
        let is_marked =
            |text| first(&self.opening, text).is_some() || first(&self.closing, text).is_some();
        if is_marked(inner) || is_marked(&text[end..]) {
            return Err(MixedParts);
        }
        // The blanks behind a mark belong to it.
        let end = text.len() - text[end..].trim_start().len();
        let start = opened + inner.len() - inner.trim_start().len();
        Ok(Some((start..start + inner.trim().len(), end)))
    }
}

/// The first of some marks in a text.
fn first(marks: &[String], text: &str) -> Option<Range<usize>> {
    let found =
        marks.iter().filter_map(|mark| text.find(mark.as_str()).map(|at| at..at + mark.len()));
    found.min_by_key(|place| (place.start, usize::MAX - place.end))
}
