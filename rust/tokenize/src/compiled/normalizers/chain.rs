//! A sequence of normalizers, each with a fast check for text that it does not change.

use memchr::memmem;
use serde::Deserialize;
use serde_json::{Value, json};
use tokenizers::normalizers::NormalizerWrapper;
use unicode_normalization_alignments::UnicodeNormalization;

use super::bert::Bert;
use super::charsmap::Charsmap;
use super::compose::Composer;
use super::normalized::Normalized;
use crate::pattern::{Automaton, Pattern, Tails};
use crate::unicode::byte_letters::byte_letters;
use crate::unicode::{self, NormalizedForms};

/// The patterns that match nothing but runs of whitespace or of spaces, and all of such a run.
const BLANKS: [&str; 4] = [r"\s+", " +", " {2,}", r"\s{2,}"];

/// Several normalizers, in their order.
pub(crate) struct Chain {
    steps: Vec<NormalizerStep>,
    /// The whole sequence as the reference's normalizer.
    whole: NormalizerWrapper,
    /// True if one of the normalizers composes letters and marks.
    composes: bool,
    /// The sequence for the parts of a text behind the first one, if parts can be normalized apart.
    rest: Option<NormalizerWrapper>,
}

/// One normalizer.
enum NormalizerStep {
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
        /// True if the pattern matches runs of whitespace, or of spaces, and nothing else.
        blanks: bool,
    },
    /// Puts a text in front of a text that is not empty.
    Prepend(String),
    Strip {
        left: bool,
        right: bool,
    },
    /// Rewrites each character by itself.
    Characters(&'static NormalizedForms),
    Lowercase,
    /// Writes each byte as the character that stands for it.
    Bytes,
}

impl Chain {
    /// Reads a normalizer; the error names the step that is not supported.
    pub(crate) fn new(normalizer: &Value) -> Result<Self, String> {
        let mut written = Vec::new();
        flatten(normalizer, &mut written);
        let mut chain = Self {
            steps: Vec::new(),
            whole: NormalizerWrapper::deserialize(normalizer).map_err(|error| error.to_string())?,
            composes: false,
            rest: None,
        };
        for step in &written {
            let step = NormalizerStep::new(step).map_err(|reason| {
                format!("normalizer {}{reason}", step["type"].as_str().unwrap_or_default())
            })?;
            chain.composes |= matches!(step, NormalizerStep::Composer(_));
            chain.steps.push(step);
        }
        if chain.steps.iter().all(NormalizerStep::keeps_parts) {
            let steps: Vec<Value> = written.into_iter().filter_map(behind_first).collect();
            let rest = json!({"type": "Sequence", "normalizers": steps});
            chain.rest = NormalizerWrapper::deserialize(rest).ok();
        }
        Ok(chain)
    }

    /// True if the sequence has no steps.
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// True if one of the normalizers composes letters and marks.
    pub(crate) fn composes(&self) -> bool {
        self.composes
    }

    /// True if the words of a text can be normalized apart, as [`super::normalize::Normalizer::keeps_words`] says.
    pub(crate) fn keeps_words(&self) -> bool {
        self.steps.iter().all(|step| match step {
            NormalizerStep::Composer(_)
            | NormalizerStep::Decomposer { .. }
            | NormalizerStep::Bert(_)
            | NormalizerStep::Characters(_)
            | NormalizerStep::Lowercase => true,
            NormalizerStep::Pattern { content, blanks, .. } => *blanks && content == " ",
            NormalizerStep::Charsmap(_)
            | NormalizerStep::Literal { .. }
            | NormalizerStep::Prepend(_)
            | NormalizerStep::Strip { .. }
            | NormalizerStep::Bytes => false,
        })
    }

    /// The normalized form of `text`, or `None` if it is the same. See
    /// [`super::normalize::Normalizer::normalize`].
    pub(crate) fn normalize(&self, text: &str, offset: usize, sources: bool) -> Option<Normalized> {
        let changed = self.changed(text, true)?;
        let mut normalized = Normalized::default();
        if !sources {
            normalized.text = changed;
            return Some(normalized);
        }
        // The reference gives the source ranges.
        let Some(rest) = &self.rest else {
            normalized.ask(&self.whole, text, offset, true);
            return Some(normalized);
        };
        let mut from = 0;
        for end in part_ends(text) {
            let (part, at) = (&text[from..end], offset + from);
            if self.changed(part, from == 0).is_none() {
                normalized.keep(part, at, true);
            } else {
                normalized.ask(if from == 0 { &self.whole } else { rest }, part, at, true);
            }
            from = end;
        }
        Some(normalized)
    }

    /// The text after all steps, or `None` if it stays the same. A text that is not the `first` part of its text is
    /// not changed at its start.
    fn changed(&self, text: &str, first: bool) -> Option<String> {
        let mut changed: Option<String> = None;
        for step in &self.steps {
            let text = changed.as_deref().unwrap_or(text);
            let next = match step {
                NormalizerStep::Prepend(_) if !first => None,
                NormalizerStep::Strip { right, .. } if !first => {
                    NormalizerStep::Strip { left: false, right: *right }.apply(text)
                }
                step => step.apply(text),
            };
            changed = next.or(changed);
        }
        changed
    }
}

/// The ends of the parts of a text that are normalized apart: before a space between two words that have two letters or
/// digits of ASCII there. Neither the space nor the two characters beside it can have a mark, or be one cluster with
/// another character.
fn part_ends(text: &str) -> impl Iterator<Item = usize> {
    let bytes = text.as_bytes();
    let is_end = |at: &usize| {
        let around = at.checked_sub(2).and_then(|from| bytes.get(from..)?.first_chunk::<5>());
        around
            .is_some_and(|[a, b, _, c, d]| [a, b, c, d].iter().all(|it| it.is_ascii_alphanumeric()))
    };
    memchr::memchr_iter(b' ', bytes).filter(is_end).chain([bytes.len()])
}

/// A step as it is for the parts of a text behind the first one; `None` if it does nothing to them.
fn behind_first(step: &Value) -> Option<Value> {
    let mut step = step.clone();
    match step["type"].as_str() {
        Some("Prepend") => return None,
        Some("Strip") => step["strip_left"] = false.into(),
        _ => {}
    }
    Some(step)
}

/// Appends the steps of a sequence, and of the sequences in it.
fn flatten<'a>(step: &'a Value, steps: &mut Vec<&'a Value>) {
    match step["normalizers"].as_array().filter(|_| step["type"] == "Sequence") {
        Some(inner) => inner.iter().for_each(|step| flatten(step, steps)),
        None if step.is_null() => {}
        None => steps.push(step),
    }
}

impl NormalizerStep {
    /// Reads a step; the error names the part of it that is not supported.
    fn new(step: &Value) -> Result<Self, String> {
        Ok(match step["type"].as_str() {
            Some("NFC") => Self::Composer(Composer::Nfc),
            Some("NFKC") => Self::Composer(Composer::Nfkc),
            Some("NFD") => Self::Decomposer { compatible: false },
            Some("NFKD") => Self::Decomposer { compatible: true },
            Some("BertNormalizer") => {
                Self::Bert(super::bert::bert(step).ok_or(" with other fields")?)
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

    /// Tests that the step can be applied to each part of [`part_ends`] alone, with [`behind_first`] for all but the
    /// first. Such a step leaves the five characters around the bounds letters, digits and a space.
    fn keeps_parts(&self) -> bool {
        match self {
            Self::Composer(_)
            | Self::Decomposer { .. }
            | Self::Bert(_)
            | Self::Prepend(_)
            | Self::Strip { .. }
            | Self::Characters(_)
            | Self::Lowercase => true,
            Self::Charsmap(charsmap) => charsmap.keeps_alphanumerics(),
            Self::Literal { finder, .. } => {
                !finder.needle().iter().any(|byte| *byte == b' ' || byte.is_ascii_alphanumeric())
            }
            Self::Pattern { blanks, .. } => *blanks && self.apply("a b").is_none(),
            Self::Bytes => false,
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
    // One character that replaces itself has the source that it had.
    let one = content.chars().nth(1).is_none();
    for (start, end) in found.filter(|(start, end)| !one || &text[*start..*end] != content) {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_have_the_sources_of_the_whole_text(
            text in "( |  |[a-cA-C0]{1,3}| [abXY]{2}|aé b|e\u{301}|ﬁ|Ａ|``|\u{3000}|\n){0,16}",
        ) {
            let strip = json!({"type": "Strip", "strip_left": true, "strip_right": true});
            let prepend = json!({"type": "Prepend", "prepend": "▁"});
            let replace = |pattern: Value, content: &str| json!({"type": "Replace", "pattern": pattern, "content": content});
            let blanks = replace(json!({"Regex": " {2,}"}), "▁");
            let white = replace(json!({"Regex": r"\s+"}), " ");
            let quotes = replace(json!({"String": "``"}), "\"  ");
            let named = |name: &str| json!({"type": name});
            for steps in [
                vec![strip.clone(), named("NFKC"), blanks.clone()],
                vec![prepend, quotes.clone(), blanks.clone(), named("Lowercase")],
                vec![quotes, named("NFKD"), named("StripAccents"), named("Lowercase"), blanks, strip],
                vec![named("NFC"), white, named("Lowercase")],
            ] {
                let written = json!({"type": "Sequence", "normalizers": steps});
                let chain = Chain::new(&written).expect("the steps are known");
                prop_assert!(chain.rest.is_some());
                let mut expected = Normalized::default();
                expected.ask(&chain.whole, &text, 3, true);
                let found = chain.normalize(&text, 3, true).unwrap_or_else(|| {
                    let mut same = Normalized::default();
                    same.keep(&text, 3, true);
                    same
                });
                prop_assert_eq!(&found.text, &expected.text);
                prop_assert_eq!(&found.sources, &expected.sources);
            }
        }
    }
}
