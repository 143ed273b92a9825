//! [`SearchWords`]: made-up words in place of what the assistant says. Those that a rendered text lacks show what the text
//! leaves out.

use std::sync::Arc;

use fastpack_template::json::{Json, Map};

use super::markup_trials::turn_forms::{TurnForms, WORDS};
use crate::template::conversation::{ARGUMENTS, REASONING, is_assistant};

/// Something that the assistant says, and the words by which a text shows it.
#[derive(Clone, Debug)]
pub(super) struct SearchWords {
    /// The index of its message.
    pub(super) message: usize,
    /// Its kind.
    pub(super) kind: WordKind,
    /// The words of its parts, without the marks that a template may search for; none of a call without arguments.
    pub(super) words: Vec<String>,
}

/// A kind of text that the assistant says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WordKind {
    /// Reasoning in a field, or in a part of the content.
    Reasoning,
    /// A text of the content.
    Content,
    /// A call of a tool, with its arguments if they are JSON text.
    Call(Option<String>),
}

/// The types of content parts that are reasoning.
const REASONING_PARTS: [&str; 2] = ["thinking", "reasoning"];

/// The key of a value with the type of an object.
const TYPE: &str = "type";

/// Replaces what the assistant says in messages by made-up words, and tells the words to search for.
pub(super) struct WordReplacer<'f> {
    forms: &'f TurnForms,
    /// True if the words are replaced by made-up words that occur nowhere else. Otherwise they stay, and the longest word of a
    /// text is searched for.
    replaces: bool,
    /// True if the first word behind an opening of the generation prompt stays, since a turn is trained behind what it shares
    /// with that.
    keeps_first: bool,
    /// The number of made-up words so far.
    count: usize,
    found: Vec<SearchWords>,
}

impl<'f> WordReplacer<'f> {
    /// A replacer for messages of a template with these forms.
    pub(super) fn new(forms: &'f TurnForms, replaces: bool) -> Self {
        Self { forms, replaces, keeps_first: true, count: 0, found: Vec::new() }
    }

    /// A replacer whose words are searched for alone: no first word stays.
    pub(super) fn of_notes(forms: &'f TurnForms, replaces: bool) -> Self {
        Self { keeps_first: false, ..Self::new(forms, replaces) }
    }

    /// The messages with their words replaced, and the words to search for.
    pub(super) fn replace(mut self, messages: &[Arc<Map>]) -> (Vec<Arc<Map>>, Vec<SearchWords>) {
        let replaced = messages.iter().enumerate().map(|(at, message)| {
            if is_assistant(message) {
                Arc::new(self.message(at, message))
            } else {
                Arc::clone(message)
            }
        });
        (replaced.collect(), self.found)
    }

    fn message(&mut self, at: usize, message: &Map) -> Map {
        // Templates see the same reasoning under several names.
        let mut reasoning: Option<(&Json, Json)> = None;
        let replaced = message.iter().map(|(key, value)| {
            let replaced = match (&**key, value) {
                (name, _) if REASONING.contains(&name) => match &reasoning {
                    Some((own, replaced)) if *own == value => replaced.clone(),
                    _ => {
                        let replaced = self.value(at, &WordKind::Reasoning, value);
                        reasoning = Some((value, replaced.clone()));
                        replaced
                    }
                },
                ("content", Json::List(parts)) => {
                    let parts = parts.iter().map(|part| self.part(at, part)).collect();
                    Json::List(Arc::new(parts))
                }
                ("content", _) => self.value(at, &WordKind::Content, value),
                ("tool_calls", Json::List(calls)) => {
                    let calls = calls.iter().map(|call| self.call(at, call)).collect();
                    Json::List(Arc::new(calls))
                }
                ("function_call", _) => self.call(at, value),
                _ => value.clone(),
            };
            (Arc::clone(key), replaced)
        });
        replaced.collect()
    }

    /// A part of a content.
    fn part(&mut self, at: usize, part: &Json) -> Json {
        let kind = match part {
            Json::Map(part) => part.get(TYPE),
            _ => None,
        };
        let word_kind = match kind {
            Some(Json::String(kind)) if REASONING_PARTS.contains(&&**kind) => WordKind::Reasoning,
            _ => WordKind::Content,
        };
        self.value(at, &word_kind, part)
    }

    /// A call of a tool, or its function.
    fn call(&mut self, at: usize, call: &Json) -> Json {
        let Json::Map(call) = call else { return call.clone() };
        let mut replaced = (**call).clone();
        if let Some(function @ Json::Map(_)) = call.get("function") {
            replaced.insert("function".into(), self.call(at, function));
            return Json::Map(Arc::new(replaced));
        }
        let arguments = ARGUMENTS.into_iter().find(|name| call.contains_key(*name));
        let first = self.found.len();
        let mut text = None;
        if let Some(name) = arguments {
            let value = self.value(at, &WordKind::Call(None), &call[name]);
            if let Json::String(arguments) = &value
                && arguments.trim_start().starts_with('{')
            {
                text = Some(arguments.to_string());
            }
            replaced.insert(name.into(), value);
        }
        let words = self.found.drain(first..).flat_map(|found| found.words).collect();
        self.found.push(SearchWords { message: at, kind: WordKind::Call(text), words });
        Json::Map(Arc::new(replaced))
    }

    /// A value with made-up words in its texts.
    fn value(&mut self, at: usize, kind: &WordKind, value: &Json) -> Json {
        match value {
            Json::String(text) => Json::String(self.text(at, kind, text).into()),
            Json::List(items) => {
                let items = items.iter().map(|item| self.value(at, kind, item)).collect();
                Json::List(Arc::new(items))
            }
            Json::Map(map) => {
                let items = map.iter().map(|(key, item)| {
                    let is_kept = **key == *TYPE;
                    let item = if is_kept { item.clone() } else { self.value(at, kind, item) };
                    (Arc::clone(key), item)
                });
                Json::Map(Arc::new(items.collect()))
            }
            other => other.clone(),
        }
    }

    /// A text with made-up words in place of its parts.
    fn text(&mut self, message: usize, kind: &WordKind, text: &str) -> String {
        let mut words = Vec::new();
        let replaced = if matches!(kind, WordKind::Call(_)) {
            if let Some((before, after)) = text.split_once(WORDS).filter(|_| self.replaces) {
                words.push(self.next());
                format!("{before}{}{after}", words[0])
            } else {
                words.extend(longest_word(text));
                text.to_owned()
            }
        } else if !self.replaces || self.forms.is_literal(text) {
            let parts = self.forms.parts(text).into_iter().filter(|(_, is_words)| *is_words);
            words.extend(parts.filter_map(|(part, _)| longest_word(part)));
            text.to_owned()
        } else {
            let (forms, keeps_first) = (self.forms, self.keeps_first);
            let begun = if keeps_first { forms.beginning(text) } else { forms.opening(text) };
            let (begun, rest) = text.split_at(begun);
            let mut changed = begun.to_owned();
            for (part, is_words) in self.forms.parts(rest) {
                let own = part.trim();
                if !is_words || own.is_empty() {
                    changed.push_str(part);
                    continue;
                }
                let start = part.len() - part.trim_start().len();
                words.push(self.next());
                changed.push_str(&part[..start]);
                changed.push_str(&words[words.len() - 1]);
                changed.push_str(&part[start + own.len()..]);
            }
            if words.is_empty() {
                words.extend(longest_word(begun));
            }
            changed
        };
        if !words.is_empty() {
            self.found.push(SearchWords { message, kind: kind.clone(), words });
        }
        replaced
    }

    fn next(&mut self) -> String {
        self.count += 1;
        format!("W{}w", self.count)
    }
}

/// The longest word of a text, or the text without the blanks around it if it has none; `None` if it is blank.
fn longest_word(text: &str) -> Option<String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let word = words.max_by_key(|word| word.len()).filter(|word| !word.is_empty());
    let text = word.unwrap_or(text.trim());
    (!text.is_empty()).then(|| text.to_owned())
}
