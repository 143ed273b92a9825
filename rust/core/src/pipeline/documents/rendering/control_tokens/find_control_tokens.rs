//! [`ControlTokens`]: finds the control tokens of a tokenizer in texts.

use std::ops::Range;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use fastpack_template::json::Json;
use fastpack_tokenize::Tokenizer;

/// The control tokens of a tokenizer, if it has some.
pub(crate) struct ControlTokens(Option<AhoCorasick>);

impl ControlTokens {
    /// The special tokens of a tokenizer that have at least two bytes.
    pub(crate) fn of(tokenizer: Option<&Tokenizer>) -> Self {
        let tokens = tokenizer.map_or(&[][..], Tokenizer::special_tokens);
        let tokens: Vec<&String> = tokens.iter().filter(|token| token.len() > 1).collect();
        let found = || {
            // The longest token at a place is found, as the tokenizer finds it.
            let search =
                AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&tokens);
            search.ok()
        };
        Self(if tokens.is_empty() { None } else { found() })
    }

    /// True if a control token occurs in a text.
    pub(crate) fn occur_in(&self, text: &str) -> bool {
        self.0.as_ref().is_some_and(|tokens| tokens.is_match(text))
    }

    /// True if a control token occurs in a text of a value.
    pub(crate) fn occur_in_value(&self, value: &Json) -> bool {
        match value {
            Json::String(text) => self.occur_in(text),
            Json::List(items) => items.iter().any(|item| self.occur_in_value(item)),
            Json::Map(map) => map.values().any(|item| self.occur_in_value(item)),
            _ => false,
        }
    }
}

/// The characters around control tokens of texts while they are rendered: private ones that the texts do not have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ControlMarks {
    before: char,
    after: char,
}

impl ControlMarks {
    /// Characters that occur in none of the texts.
    pub(crate) fn absent_from(texts: &[&str]) -> Option<Self> {
        let is_free = |c: &char| !texts.iter().any(|text| text.contains(*c));
        let mut free = ('\u{F0000}'..='\u{FFFFD}').rev().filter(is_free);
        Some(Self { before: free.next()?, after: free.next()? })
    }

    /// Removes the marks from a rendered text, and tells the control tokens that they stood around.
    pub(crate) fn remove(self, text: &str) -> (String, Vec<Range<usize>>) {
        let (mut plain, mut tokens, mut open) =
            (String::with_capacity(text.len()), Vec::new(), None);
        for c in text.chars() {
            if c == self.before {
                open = Some(plain.len());
            } else if c == self.after {
                tokens.extend(open.take().map(|start| start..plain.len()));
            } else {
                plain.push(c);
            }
        }
        (plain, tokens)
    }
}

impl ControlTokens {
    /// A text with marks around each control token.
    pub(crate) fn marked(&self, text: &str, marks: ControlMarks) -> String {
        let Some(tokens) = &self.0 else { return text.to_owned() };
        let (mut marked, mut at) = (String::with_capacity(text.len()), 0);
        for found in tokens.find_iter(text) {
            marked.push_str(&text[at..found.start()]);
            marked.push(marks.before);
            marked.push_str(&text[found.range()]);
            marked.push(marks.after);
            at = found.end();
        }
        marked.push_str(&text[at..]);
        marked
    }

    /// A value with marks around each control token in its texts.
    pub(crate) fn marked_value(&self, value: &Json, marks: ControlMarks) -> Json {
        match value {
            Json::String(text) => Json::String(self.marked(text, marks).into()),
            Json::List(items) => {
                let items = items.iter().map(|item| self.marked_value(item, marks)).collect();
                Json::List(Arc::new(items))
            }
            Json::Map(map) => {
                let items = map.iter();
                let items =
                    items.map(|(key, item)| (Arc::clone(key), self.marked_value(item, marks)));
                Json::Map(Arc::new(items.collect()))
            }
            other => other.clone(),
        }
    }
}
