//! [`Normalizer`]: the normalizer of a stretch of text.

use std::sync::Arc;

use super::bert::Bert;
use super::chain::Chain;
use super::compose::Composer;
use super::normalized::Normalized;

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
