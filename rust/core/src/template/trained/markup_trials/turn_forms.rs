//! [`TurnForms`]: the forms of conversations in which the cheaper search finds the turns that the definition finds.
//!
//! Two conversations have the same form if a template can hardly tell them apart: the same roles, keys and kinds of
//! values, with other words. A form is tried with made-up words, so the result does not depend on which
//! conversation comes first.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use aho_corasick::{AhoCorasick, MatchKind};
use fastpack_template::Template;
use fastpack_template::json::{Json, Map};

use super::message_contexts::KnownContexts;
use crate::record::write_json;
use crate::report::ledger::NoteSet;

/// Most times that a group of messages is repeated in a form.
const MOST_REPEATS: usize = 2;

/// Most messages of a group whose repeats are left out.
const LONGEST_GROUP: usize = 6;

/// Most bytes of a word that a form keeps.
const LONGEST_WORD: usize = 64;

/// The words of made-up conversations.
pub(crate) const WORDS: &str = "Ww";

/// The forms of conversations that were tried.
#[derive(Debug)]
pub(crate) struct TurnForms {
    /// The string literals of the template, sorted.
    literals: Vec<String>,
    /// Literals and written texts that look like markup, which a template may search for in a text. The longest of those that
    /// begin at one place is found. `None` if there are too many.
    markers: Option<AhoCorasick>,
    /// Bytes of the longest literal.
    longest_literal: usize,
    /// The text of the generation prompt behind the header with which turns begin. A turn is trained behind the tokens that
    /// it shares with the prompt, so texts that begin alike keep their beginning.
    openings: Vec<String>,
    pub(crate) tried: Mutex<HashMap<Box<[u8]>, bool>>,
    /// The notes on conversations, by the keys of their forms.
    pub(crate) noted: Mutex<HashMap<Box<[u8]>, NoteSet>>,
    /// The contexts of messages in conversations that were tried.
    pub(super) contexts: Mutex<KnownContexts>,
}

impl TurnForms {
    /// No forms, of a template of this source with these [openings](Self::openings).
    pub(crate) fn of(source: &str, openings: Vec<String>) -> Self {
        let (written, mut literals) = Template::texts(source);
        literals.sort_unstable();
        literals.dedup();
        let is_marker = |text: &&String| {
            text.trim().len() > 1
                && text.contains(|c: char| !c.is_alphanumeric() && !c.is_whitespace())
        };
        let mut markers: Vec<String> =
            literals.iter().filter(is_marker).map(|text| text.trim().to_owned()).collect();
        // A text may begin with markup of the template, such as the `<think>` of a generation prompt.
        let written = written.iter().chain(&literals).flat_map(|text| markup(text));
        markers.extend(written.map(str::to_owned));
        markers.sort_unstable();
        markers.dedup();
        let markers =
            AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&markers).ok();
        let longest_literal = literals.iter().map(String::len).max().unwrap_or(0);
        Self {
            literals,
            markers,
            longest_literal,
            openings,
            tried: Mutex::default(),
            noted: Mutex::default(),
            contexts: Mutex::default(),
        }
    }

    /// The text with made-up words; the marks that the template may search for stay.
    fn sample_text(&self, text: &str) -> String {
        if self.is_literal(text) {
            return text.to_owned();
        }
        let (begun, text) = text.split_at(self.beginning(text));
        let mut sample = begun.to_owned();
        for (part, is_words) in self.parts(text) {
            if is_words {
                push_words(part, &mut sample);
            } else {
                sample.push_str(part);
            }
        }
        sample
    }

    /// Bytes of a text up to where it begins otherwise than an opening of the generation prompt; 0 for a text that does so with
    /// its first character.
    pub(crate) fn opening(&self, text: &str) -> usize {
        let begun = text.trim_start();
        let reached = self.openings.iter().filter_map(|opening| {
            let alike = begun.char_indices().zip(opening.chars());
            let ((at, last), _) = alike.take_while(|((_, one), other)| one == other).last()?;
            Some(at + last.len_utf8())
        });
        reached.max().map_or(0, |end| text.len() - begun.len() + end)
    }

    /// Bytes of a text up to the end of the word in which it begins otherwise than an opening of the generation prompt; 0
    /// for a text that begins otherwise with its first character.
    pub(crate) fn beginning(&self, text: &str) -> usize {
        let shared = self.opening(text);
        if shared == 0 {
            return 0;
        }
        let word = text[shared..].find(char::is_whitespace).unwrap_or(text.len() - shared);
        let longest = shared + word.min(LONGEST_WORD);
        (0..=longest).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
    }

    /// The parts of a text in order: marks that the template may search for, and the words around them, which are marked `true`.
    pub(crate) fn parts<'t>(&self, text: &'t str) -> Vec<(&'t str, bool)> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some(place) = self.first_marker(rest) {
            parts.extend([(&rest[..place.start], true), (&rest[place.clone()], false)]);
            rest = &rest[place.end..];
        }
        parts.push((rest, true));
        parts
    }

    /// Writes the difference between texts of a form and others: nothing for text without marks that the template
    /// may search for. Without `may_have_marks` it is known to have none.
    pub(crate) fn write_text(
        &self,
        number: u32,
        text: &str,
        may_have_marks: bool,
        key: &mut Vec<u8>,
    ) {
        let may_differ = text.is_empty()
            || text.starts_with(char::is_whitespace)
            || text.ends_with(char::is_whitespace)
            || (may_have_marks && self.has_marks(text))
            || self.beginning(text) > 0
            || (text.len() <= self.longest_literal && self.is_literal(text));
        if !may_differ {
            return;
        }
        let sample = self.sample_text(text);
        if sample != WORDS {
            key.extend_from_slice(&number.to_le_bytes());
            key.extend_from_slice(sample.as_bytes());
            key.push(0);
        }
    }

    /// Writes the difference between values of a form and others.
    pub(crate) fn write_field(&self, name: &str, value: &Json, key: &mut Vec<u8>) {
        write_json(&self.field(name, value), key);
    }

    /// True if the template has the string as a literal.
    pub(crate) fn is_literal(&self, text: &str) -> bool {
        self.literals.binary_search_by(|literal| literal.as_str().cmp(text)).is_ok()
    }

    /// True if a text has a mark that the template may search for.
    pub(crate) fn has_marks(&self, text: &str) -> bool {
        self.first_marker(text).is_some()
    }

    /// The place of the first marker in a text, the longest of those that begin there.
    fn first_marker(&self, text: &str) -> Option<Range<usize>> {
        self.markers.as_ref()?.find(text).map(|found| found.range())
    }

    fn value(&self, value: &Json) -> Json {
        match value {
            Json::String(text) => Json::String(self.sample_text(text).as_str().into()),
            Json::List(items) => {
                let items = items.iter().map(|item| self.value(item)).collect();
                Json::List(Arc::new(without_repeats(items)))
            }
            Json::Map(map) => {
                let items = map.iter().map(|(key, value)| (Arc::clone(key), self.value(value)));
                Json::Map(Arc::new(items.collect()))
            }
            other => other.clone(),
        }
    }

    /// A call of tools with made-up words. Its arguments become one.
    fn call(&self, call: &Json) -> Json {
        let Json::Map(call) = call else { return self.value(call) };
        let entries = call.iter().map(|(key, value)| {
            let value = match (&**key, value) {
                ("function", function) => self.call(function),
                ("id", Json::String(id)) => Json::String(sample_id(id).into()),
                ("arguments" | "parameters", Json::Map(arguments)) => {
                    let one = [(Arc::from("q"), Json::String(WORDS.into()))];
                    Json::Map(Arc::new(if arguments.is_empty() {
                        Map::default()
                    } else {
                        one.into_iter().collect()
                    }))
                }
                ("arguments" | "parameters", Json::String(arguments)) => {
                    let sample = if arguments.trim_start().starts_with('{') {
                        r#"{"q": "Ww"}"#
                    } else {
                        arguments
                    };
                    Json::String(sample.into())
                }
                (_, value) => self.value(value),
            };
            (Arc::clone(key), value)
        });
        Json::Map(Arc::new(entries.collect()))
    }

    /// The value of a key of a message with made-up words.
    fn field(&self, key: &str, value: &Json) -> Json {
        match (key, value) {
            ("role", role) => role.clone(),
            ("tool_calls", Json::List(calls)) => {
                let calls = calls.iter().map(|call| self.call(call)).collect();
                Json::List(Arc::new(without_repeats(calls)))
            }
            ("id" | "tool_call_id", Json::String(id)) => Json::String(sample_id(id).into()),
            (_, value) => self.value(value),
        }
    }

    pub(crate) fn message(&self, message: &Map) -> Map {
        let fields = message.iter().map(|(key, value)| (Arc::clone(key), self.field(key, value)));
        fields.collect()
    }
}

/// The parts of a text that look like tokens of their own, such as `<think>` and `[INST]`.
pub(crate) fn markup(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices(['<', '[']).filter_map(|(at, open)| {
        let close = if open == "<" { '>' } else { ']' };
        let rest = &text[at..];
        let end = rest.find(|c: char| c == close || c.is_whitespace())?;
        (end > 1 && rest[end..].starts_with(close)).then(|| &rest[..=end])
    })
}

/// Appends made-up words in place of others. The blanks around them stay: the generation prompt may end with some, and a template
/// may search for them, or take them away from the last message alone.
fn push_words(text: &str, sample: &mut String) {
    let words = text.trim();
    let begin = text.len() - text.trim_start().len();
    sample.push_str(&text[..begin]);
    if !words.is_empty() {
        sample.push_str(WORDS);
        sample.push_str(&text[begin + words.len()..]);
    }
}

/// Some templates count the characters of an id.
fn sample_id(id: &str) -> &'static str {
    if id.chars().count() == 9 { "abcdefgh0" } else { "call_0" }
}

/// The items without those of a group that is repeated more often than [`MOST_REPEATS`] times.
pub(crate) fn without_repeats<T: PartialEq>(items: Vec<T>) -> Vec<T> {
    let kept = numbers_without_repeats(&items);
    let mut numbered = items.into_iter().enumerate();
    let item = |number: &usize| numbered.find(|(at, _)| at == number).map(|(_, item)| item);
    kept.iter().filter_map(item).collect()
}

/// The numbers of the items without those of a group that is repeated more often than [`MOST_REPEATS`] times: its first
/// and its last ones stay.
pub(crate) fn numbers_without_repeats<T: PartialEq>(items: &[T]) -> Vec<usize> {
    let mut kept: Vec<usize> = Vec::with_capacity(items.len());
    for number in 0..items.len() {
        kept.push(number);
        for group in 1..=LONGEST_GROUP {
            let Some(first) = kept.len().checked_sub(group * (MOST_REPEATS + 1)) else { break };
            let is_repeated =
                (first..kept.len() - group).all(|at| items[kept[at]] == items[kept[at + group]]);
            if is_repeated {
                let last = kept.len() - group;
                kept.drain(last - group..last);
                break;
            }
        }
    }
    kept
}
