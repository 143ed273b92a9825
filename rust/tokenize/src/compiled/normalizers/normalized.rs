//! [`Normalized`]: a normalized stretch of text, and the source range of each of its bytes.

use std::ops::Range;

use tokenizers::NormalizedString;
use tokenizers::normalizer::Range as Side;

/// A normalized stretch, with the source range of each byte.
#[derive(Default)]
pub(crate) struct Normalized {
    /// The text.
    pub(crate) text: String,
    /// The range of the original text that each byte of `text` comes from; empty if source ranges are not
    /// wanted.
    pub(crate) sources: Vec<Range<usize>>,
}

impl Normalized {
    /// Appends unchanged text.
    pub(crate) fn keep(&mut self, text: &str, offset: usize, sources: bool) {
        self.text.push_str(text);
        if sources {
            for (at, c) in text.char_indices() {
                let source = offset + at..offset + at + c.len_utf8();
                self.sources.extend(std::iter::repeat_n(source, c.len_utf8()));
            }
        }
    }

    /// Appends the output of the reference's own normalizer for `text`, which begins at `offset` in the
    /// original.
    pub(crate) fn ask(
        &mut self,
        normalizer: &impl tokenizers::Normalizer,
        text: &str,
        offset: usize,
        sources: bool,
    ) {
        let mut string = NormalizedString::from(text);
        normalizer.normalize(&mut string).expect("normalizing has no way to fail");
        self.text.push_str(string.get());
        if sources {
            self.sources.extend((0..string.get().len()).map(|byte| {
                let source =
                    string.convert_offsets(Side::Normalized(byte..=byte)).unwrap_or_default();
                offset + source.start..offset + source.end
            }));
        }
    }
}
