//! [`SpacedText`]: a copy of a stretch with a space in front.

use std::ops::Range;

use super::spans::{OffsetTracker, SourceRanges};

/// A copy of a stretch, with a space in front.
pub(super) struct SpacedText {
    pub(super) text: String,
    pub(super) sources: Option<Vec<Range<usize>>>,
}

impl SpacedText {
    /// `None` if the text must be encoded again with source ranges; then the tracker is lost.
    pub(super) fn new(
        text: &str,
        range: Range<usize>,
        origin: SourceRanges<'_>,
        offset_tracker: &mut OffsetTracker,
    ) -> Option<Self> {
        let known = offset_tracker.wants_sources();
        if !known {
            offset_tracker.lose();
        }
        if offset_tracker.is_lost() {
            return None;
        }
        let stretch = &text[range.clone()];
        let sources = known.then(|| {
            let characters = stretch.char_indices().flat_map(|(at, c)| {
                let source = origin.of(range.start + at, range.start + at + c.len_utf8());
                std::iter::repeat_n(source, c.len_utf8())
            });
            let mut sources: Vec<_> = characters.collect();
            // The source of the space is the first character.
            sources.insert(0, sources[0].clone());
            sources
        });
        Some(Self { text: [" ", stretch].concat(), sources })
    }
}
