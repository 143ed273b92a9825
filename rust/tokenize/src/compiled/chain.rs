//! A sequence of normalizers, each with a fast check for text that it does not change.

use memchr::memmem;
use serde::Deserialize;
use serde_json::Value;
use tokenizers::normalizers::NormalizerWrapper;
use unicode_normalization_alignments::UnicodeNormalization;

use super::bert::Bert;
use super::charsmap::Charsmap;
use super::compose::Composer;
use super::models::byte_letters;
use super::normalize::Normalized;
use crate::pattern::{Automaton, Pattern, Tails};
use crate::unicode::{self, Changes};

/// The patterns that match nothing but runs of whitespace or of spaces, and all of such a run.
const BLANKS: [&str; 4] = [r"\s+", " +", " {2,}", r"\s{2,}"];

/// Several normalizers, in their order.
pub(crate) struct Chain {
    steps: Vec<Step>,
    /// The whole sequence as the reference's normalizer.
    whole: NormalizerWrapper,
    /// Whether one of the normalizers composes letters and marks.
    composes: bool,
}

/// One normalizer.
enum Step {
    Composer(Composer),
    /// NFD, or NFKD if `compatible`.
    Decomposer {
        compatible: bool,
    },
    Bert(Bert),
    Charsmap(Box<Charsmap>),
    /// Replaces all occurrences of a literal text.
    Literal {
        finder: Box<memmem::Finder<'static>>,
        content: String,
    },
    /// Replaces all matches of a pattern.
    Pattern {
        automaton: Box<Automaton>,
        content: String,
        /// Whether the pattern matches runs of whitespace, or of spaces, and nothing else.
        blanks: bool,
    },
    /// Puts a text in front of a text that is not empty.
    Prepend(String),
    Strip {
        left: bool,
        right: bool,
    },
    /// Rewrites each character by itself.
    Characters(&'static Changes),
    Lowercase,
    /// Writes each byte as the character that stands for it.
    Bytes,
}

impl Chain {
    /// Reads a normalizer; the error names the step that is not supported.
    pub(super) fn new(normalizer: &Value) -> Result<Self, String> {
        let mut written = Vec::new();
        flatten(normalizer, &mut written);
        let mut chain = Self {
            steps: Vec::new(),
            whole: NormalizerWrapper::deserialize(normalizer).map_err(|error| error.to_string())?,
            composes: false,
        };
        for step in written {
            let step = Step::new(step).map_err(|reason| {
                format!("normalizer {}{reason}", step["type"].as_str().unwrap_or_default())
            })?;
            chain.composes |= matches!(step, Step::Composer(_));
            chain.steps.push(step);
        }
        Ok(chain)
    }

    /// Whether the sequence has no steps.
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether one of the normalizers composes letters and marks.
    pub(super) fn composes(&self) -> bool {
        self.composes
    }

    /// Whether the words of a text can be normalized apart, as [`super::normalize::Normalizer::keeps_words`] says.
    pub(super) fn keeps_words(&self) -> bool {
        self.steps.iter().all(|step| match step {
            Step::Composer(_)
            | Step::Decomposer { .. }
            | Step::Bert(_)
            | Step::Characters(_)
            | Step::Lowercase => true,
            Step::Pattern { content, blanks, .. } => *blanks && content == " ",
            Step::Charsmap(_)
            | Step::Literal { .. }
            | Step::Prepend(_)
            | Step::Strip { .. }
            | Step::Bytes => false,
        })
    }

    /// The normalized form of `text`, or `None` if it is the same. See
    /// [`super::normalize::Normalizer::normalize`].
    pub(super) fn normalize(&self, text: &str, offset: usize, sources: bool) -> Option<Normalized> {
        let mut changed: Option<String> = None;
        for step in &self.steps {
            if let Some(next) = step.apply(changed.as_deref().unwrap_or(text)) {
                changed = Some(next);
            }
        }
        let changed = changed?;
        let mut normalized = Normalized::default();
        if sources {
            // The reference gives the source ranges.
            normalized.ask(&self.whole, text, offset, true);
        } else {
            normalized.text = changed;
        }
        Some(normalized)
    }
}

/// Appends the steps of a sequence, and of the sequences in it.
fn flatten<'a>(step: &'a Value, steps: &mut Vec<&'a Value>) {
    match step["normalizers"].as_array().filter(|_| step["type"] == "Sequence") {
        Some(inner) => inner.iter().for_each(|step| flatten(step, steps)),
        None if step.is_null() => {}
        None => steps.push(step),
    }
}

impl Step {
    /// Reads a step; the error names the part of it that is not supported.
    fn new(step: &Value) -> Result<Self, String> {
        Ok(match step["type"].as_str() {
            Some("NFC") => Self::Composer(Composer::Nfc),
            Some("NFKC") => Self::Composer(Composer::Nfkc),
            Some("NFD") => Self::Decomposer { compatible: false },
            Some("NFKD") => Self::Decomposer { compatible: true },
            Some("BertNormalizer") => {
                Self::Bert(super::recognise::bert(step).ok_or(" with other fields")?)
            }
            Some("Precompiled") => Self::Charsmap(Box::new(Charsmap::new(step)?)),
            Some("Replace") => return Self::replace(step),
            Some("Prepend") => {
                Self::Prepend(step["prepend"].as_str().ok_or(" without a text")?.to_owned())
            }
            Some("Strip") => {
                let side = |name: &str| step[name].as_bool().ok_or(" without sides");
                Self::Strip { left: side("strip_left")?, right: side("strip_right")? }
            }
            Some("StripAccents") => Self::Characters(unicode::accents()),
            Some("Nmt") => Self::Characters(unicode::nmt()),
            Some("Lowercase") => Self::Lowercase,
            Some("ByteLevel") => Self::Bytes,
            _ => return Err(String::new()),
        })
    }

    fn replace(step: &Value) -> Result<Self, String> {
        let content = step["content"].as_str().ok_or(" without a content")?.to_owned();
        match (&step["pattern"]["String"], &step["pattern"]["Regex"]) {
            (Value::String(text), _) if !text.is_empty() => {
                let finder = Box::new(memmem::Finder::new(text.as_bytes()).into_owned());
                Ok(Self::Literal { finder, content })
            }
            (_, Value::String(text)) => {
                let named = |reason: String| format!(" with pattern `{text}` ({reason})");
                let pattern = Pattern::new(text).map_err(named)?;
                let automaton = Box::new(pattern.automaton().map_err(named)?);
                let blanks =
                    BLANKS.iter().any(|it| Pattern::new(it).is_ok_and(|it| it.means(&pattern)));
                Ok(Self::Pattern { automaton, content, blanks })
            }
            _ => Err(" of an unknown pattern".to_owned()),
        }
    }

    /// The text after the step, or `None` if it stays the same.
    fn apply(&self, text: &str) -> Option<String> {
        match self {
            Self::Composer(composer) => composer.compose(text, 0, false).map(|it| it.text),
            Self::Decomposer { compatible } => decompose(text, *compatible),
            Self::Bert(bert) => {
                let mut out = Normalized::default();
                bert.normalize(text, 0, false, &mut out);
                (out.text != text).then_some(out.text)
            }
            Self::Charsmap(charsmap) => charsmap.apply(text),
            Self::Literal { finder, content } => {
                let length = finder.needle().len();
                let found = finder.find_iter(text.as_bytes()).map(|at| (at, at + length));
                replaced(text, found, content)
            }
            Self::Pattern { automaton, content, .. } => {
                let (mut from, mut tails) = (0, Tails::default());
                let found = std::iter::from_fn(|| {
                    let found = automaton.find(text.as_bytes(), 0, from, 0, &mut tails)?;
                    from = found.1;
                    Some(found)
                });
                replaced(text, found, content)
            }
            Self::Prepend(before) => (!text.is_empty()).then(|| [before, text].concat()),
            Self::Strip { left, right } => {
                let mut rest = text;
                rest = if *left { rest.trim_start() } else { rest };
                rest = if *right { rest.trim_end() } else { rest };
                (rest.len() < text.len()).then(|| rest.to_owned())
            }
            Self::Characters(changes) => changes.apply(text),
            Self::Bytes => {
                let letters = byte_letters();
                let plain = |byte: u8| byte.is_ascii_graphic();
                let first = text.bytes().position(|byte| !plain(byte))?;
                let mut out = text[..first].to_owned();
                out.extend(text.bytes().skip(first).map(|it| letters[usize::from(it)].as_str()));
                Some(out)
            }
            Self::Lowercase => {
                let lowers = |c: char| !c.to_lowercase().eq([c]);
                let first = text.char_indices().find(|(_, c)| lowers(*c))?.0;
                let mut out = String::with_capacity(text.len());
                out.push_str(&text[..first]);
                for part in text[first..].chunk_by_ascii() {
                    if part.is_ascii() {
                        let start = out.len();
                        out.push_str(part);
                        out[start..].make_ascii_lowercase();
                    } else {
                        out.extend(part.chars().flat_map(char::to_lowercase));
                    }
                }
                Some(out)
            }
        }
    }
}

/// The text with `content` in place of each match, or `None` if there is no match.
fn replaced(
    text: &str,
    found: impl Iterator<Item = (usize, usize)>,
    content: &str,
) -> Option<String> {
    let (mut out, mut from) = (String::new(), 0);
    for (start, end) in found {
        if from == 0 {
            out.reserve(text.len());
        }
        out.push_str(&text[from..start]);
        out.push_str(content);
        from = end;
    }
    (from > 0).then(|| {
        out.push_str(&text[from..]);
        out
    })
}

/// NFD or NFKD of the parts that are not ASCII. ASCII does not change, and no mark moves across it.
fn decompose(text: &str, compatible: bool) -> Option<String> {
    let first = text.bytes().position(|byte| !byte.is_ascii())?;
    let mut out = String::with_capacity(text.len());
    out.push_str(&text[..first]);
    for part in text[first..].chunk_by_ascii() {
        match compatible {
            _ if part.is_ascii() => out.push_str(part),
            true => out.extend(part.nfkd().map(|(c, _)| c)),
            false => out.extend(part.nfd().map(|(c, _)| c)),
        }
    }
    (out != text).then_some(out)
}

/// Splits a text into ASCII parts and parts without ASCII.
trait ChunkByAscii {
    fn chunk_by_ascii(&self) -> impl Iterator<Item = &str>;
}

impl ChunkByAscii for str {
    fn chunk_by_ascii(&self) -> impl Iterator<Item = &str> {
        let mut rest = self;
        std::iter::from_fn(move || {
            let ascii = rest.bytes().next()?.is_ascii();
            let end = rest.bytes().position(|byte| byte.is_ascii() != ascii);
            let (part, after) = rest.split_at(end.unwrap_or(rest.len()));
            rest = after;
            Some(part)
        })
    }
}
