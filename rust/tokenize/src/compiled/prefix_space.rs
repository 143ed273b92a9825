//! [`Spaced`]: a copy of a stretch with a space in front.

use std::ops::Range;

use super::spans::{Origin, Watch};

/// A copy of a stretch, with a space in front.
pub(super) struct Spaced {
    pub(super) text: String,
    pub(super) sources: Option<Vec<Range<usize>>>,
}

impl Spaced {
    /// `None` if the text must be encoded again with source ranges; then the watch is lost.
    pub(super) fn new(
        text: &str,
        range: Range<usize>,
        origin: Origin<'_>,
        watch: &mut Watch,
    ) -> Option<Self> {
        let known = watch.wants_sources();
        if !known {
            watch.lose();
        }
        if watch.is_lost() {
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
