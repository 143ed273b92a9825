//! The normalizer of a stretch of text, and the source range of each normalized byte.

use std::ops::Range;
use std::sync::Arc;

use tokenizers::NormalizedString;
use tokenizers::normalizer::Range as Side;

use super::bert::Bert;
use super::chain::Chain;
use super::compose::Composer;

/// A normalizer of whole texts.
#[derive(Clone)]
pub(crate) enum Normalizer {
    /// NFC or NFKC.
    Composer(Composer),
    /// BERT's normalizer.
    Bert(Bert),
    /// Any sequence of normalizers.
    Chain(Arc<Chain>),
}

/// A normalized stretch, with the source range of each byte.
#[derive(Default)]
pub(crate) struct Normalized {
    /// The text.
    pub(crate) text: String,
    /// The range of the original text that each byte of `text` comes from; empty if source ranges are not
    /// wanted.
    pub(crate) sources: Vec<Range<usize>>,
}

impl Normalizer {
    /// The normalized form of `text`, or `None` if it is the same. `offset` is the start of `text` in the
    /// original; `sources` asks for the source range of each byte.
    pub(crate) fn normalize(&self, text: &str, offset: usize, sources: bool) -> Option<Normalized> {
        match self {
            Self::Composer(composer) => composer.compose(text, offset, sources),
            Self::Bert(bert) => {
                let mut out = Normalized::default();
                bert.normalize(text, offset, sources, &mut out);
                Some(out)
            }
            Self::Chain(chain) => chain.normalize(text, offset, sources),
        }
    }

    /// True if the normalizer composes letters and marks.
    pub(crate) fn composes(&self) -> bool {
        match self {
            Self::Composer(_) => true,
            Self::Bert(_) => false,
            Self::Chain(chain) => chain.composes(),
        }
    }

    /// True if the words of a text can be normalized apart: each becomes the same as among the others, and
    /// whitespace or an ASCII character at its start, and a letter, a digit or a sign at its end stay such.
    pub(crate) fn keeps_words(&self) -> bool {
        match self {
            // A space neither composes with the text before it nor is moved.
            Self::Composer(_) | Self::Bert(_) => true,
            Self::Chain(chain) => chain.keeps_words(),
        }
    }

    /// True if normalizing can make a text several times as long.
    pub(crate) fn expands(&self) -> bool {
        match self {
            Self::Composer(composer) => *composer == Composer::Nfkc,
            Self::Bert(_) => false,
            Self::Chain(_) => true,
        }
    }

    /// The normalized form of a whole text, as the reference makes it.
    pub(crate) fn normalized(&self, text: &str) -> String {
        self.normalize(text, 0, false).map_or_else(|| text.to_owned(), |normalized| normalized.text)
    }
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
