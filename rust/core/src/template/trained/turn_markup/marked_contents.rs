//! Marks around the texts of messages. A second render with marks shows where each text is in the output.
//!
//! A mark is a private-use character that occurs in no text that is to be marked. It encodes the number of
//! the message, and the end of the text at which it stands. It stands inside of the whitespace at the ends of
//! a text, so that templates that trim give the same. If marks change the treatment of a text by a template,
//! the render without its marks differs from the plain one, and the marks are not used.

use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use fastpack_template::is_space;
use fastpack_template::json::{Json, Map};

/// The two planes of private-use characters; and both with the two characters between them that are none, for conversations of more
/// than 32,767 messages.
const PLANES: [RangeInclusive<u32>; 3] =
    [0xF_0000..=0xF_FFFD, 0x10_0000..=0x10_FFFD, 0xF_0000..=0x10_FFFD];

/// The keys of a message whose texts are marked.
pub(crate) const MARKED: [&str; 4] = ["content", "reasoning_content", "thinking", "reasoning"];

/// The marks of a conversation: private-use characters, one after the other, two for each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContentMarks {
    first: u32,
    count: u32,
}

impl ContentMarks {
    /// Marks for this many messages that occur in none of `texts`; `None` if too few characters are free.
    pub(crate) fn absent_from<'t>(
        texts: impl IntoIterator<Item = &'t str>,
        messages: usize,
    ) -> Option<Self> {
        let count = u32::try_from(messages.checked_mul(2)?).ok()?;
        // In UTF-8, all characters of these planes, and few others, begin with a byte from 0xF3 on.
        let private = texts.into_iter().filter(|text| text.as_bytes().iter().any(|it| *it >= 0xF3));
        let mut taken: Vec<u32> = private.flat_map(str::chars).map(u32::from).collect();
        taken.retain(|taken| PLANES.iter().any(|plane| plane.contains(taken)));
        taken.sort_unstable();
        PLANES.iter().find_map(|plane| {
            let mut first = *plane.start();
            for taken in taken.iter().filter(|taken| plane.contains(taken)) {
                if taken.saturating_sub(first) >= count {
                    break;
                }
                first = taken + 1;
            }
            let room = (plane.end() + 1).saturating_sub(first);
            (room >= count).then_some(Self { first, count })
        })
    }

    /// The marks before and after the texts of a message.
    fn pair(self, message: usize) -> Option<[char; 2]> {
        let before = u32::try_from(message.checked_mul(2)?).ok()?;
        let pair = [before, before + 1].map(|number| char::from_u32(self.first + number));
        (before < self.count).then_some([pair[0]?, pair[1]?])
    }

    /// The message whose mark this is, and whether it stands after a text.
    fn read(self, c: char) -> Option<(usize, bool)> {
        let number = u32::from(c).checked_sub(self.first).filter(|number| *number < self.count)?;
        Some((usize::try_from(number / 2).ok()?, number % 2 == 1))
    }

    /// The messages with marks; `None` if there are more messages than marks.
    pub(crate) fn mark_all<'r>(self, messages: &[Cow<'r, Map>]) -> Option<Vec<Cow<'r, Map>>> {
        let marked = messages.iter().enumerate().map(|(number, message)| {
            let mut message = message.clone().into_owned();
            for (key, value) in &mut message {
                *value = self.marked(key, value, number)?;
            }
            Some(Cow::Owned(message))
        });
        marked.collect()
    }

    /// The value under a key of a message, with the marks of the message; `None` if there are none for it.
    pub(crate) fn marked(self, key: &str, value: &Json, message: usize) -> Option<Json> {
        let marks = self.pair(message)?;
        Some(match key {
            key if MARKED.contains(&key) => mark_content(value, marks),
            "tool_calls" => mark_calls(value, marks),
            _ => value.clone(),
        })
    }

    /// Removes the marks from a text. Returns the text without marks, and the place of each mark in it.
    pub(crate) fn unmark(self, text: &str) -> (String, Vec<MarkPlace>) {
        let mut plain = String::with_capacity(text.len());
        let mut places = Vec::new();
        for c in text.chars() {
            match self.read(c) {
                Some((message, is_after)) => {
                    places.push(MarkPlace { message, at: plain.len(), is_after });
                }
                None => plain.push(c),
            }
        }
        (plain, places)
    }
}

/// The place of a mark in a text without marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MarkPlace {
    /// The message whose mark it is.
    pub(crate) message: usize,
    /// Its byte offset.
    pub(crate) at: usize,
    /// True if it stood after a text, not before it.
    pub(crate) is_after: bool,
}

/// A text with a mark at either end, or the same text if it is blank.
fn mark_text(text: &Arc<str>, marks: [char; 2]) -> Json {
    let inner = text.trim_matches(is_space);
    if inner.is_empty() {
        return Json::String(Arc::clone(text));
    }
    let from = text.len() - text.trim_start_matches(is_space).len();
    let to = from + inner.len();
    let [before, after] = marks;
    Json::String(format!("{}{before}{inner}{after}{}", &text[..from], &text[to..]).into())
}

/// Marks a text, or the texts of its parts.
fn mark_content(content: &Json, marks: [char; 2]) -> Json {
    match content {
        Json::String(text) => mark_text(text, marks),
        Json::List(parts) => Json::List(Arc::new(
            parts
                .iter()
                .map(|part| match part {
                    Json::Map(part) => {
                        let mut part = (**part).clone();
                        if let Some(Json::String(text)) = part.get("text") {
                            let text = mark_text(text, marks);
                            part.insert("text".into(), text);
                        }
                        Json::Map(Arc::new(part))
                    }
                    other => other.clone(),
                })
                .collect(),
        )),
        other => other.clone(),
    }
}

/// Marks names and arguments of tool calls, but not their ids and types, which templates look at.
fn mark_calls(calls: &Json, marks: [char; 2]) -> Json {
    match calls {
        Json::List(calls) => {
            Json::List(Arc::new(calls.iter().map(|call| mark_calls(call, marks)).collect()))
        }
        Json::Map(call) => {
            let mut marked = (**call).clone();
            for (key, value) in &mut marked {
                match &**key {
                    "function" => *value = mark_calls(value, marks),
                    "arguments" => *value = mark_leaves(value, marks),
                    _ => {}
                }
            }
            // A name is marked only if nothing else was, because templates print it again with the tool's
            // answer.
            if marked == **call
                && let Some(name) = marked.get_mut("name")
            {
                *name = mark_leaves(name, marks);
            }
            Json::Map(Arc::new(marked))
        }
        other => other.clone(),
    }
}

fn mark_leaves(value: &Json, marks: [char; 2]) -> Json {
    match value {
        Json::String(text) => mark_text(text, marks),
        Json::List(items) => {
            Json::List(Arc::new(items.iter().map(|item| mark_leaves(item, marks)).collect()))
        }
        Json::Map(map) => Json::Map(Arc::new(
            map.iter().map(|(key, item)| (Arc::clone(key), mark_leaves(item, marks))).collect(),
        )),
        other => other.clone(),
    }
}

/// The marks of a message in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MarkedRange {
    /// From the first to the last mark.
    pub(crate) range: Range<usize>,
    /// True if the last one stands after a text: a template may print the beginning of a text alone.
    pub(crate) is_whole: bool,
}

/// The extents of `count` messages; `None` for a message without marks.
pub(crate) fn extents(places: &[MarkPlace], count: usize) -> Vec<Option<MarkedRange>> {
    let mut extents: Vec<Option<MarkedRange>> = vec![None; count];
    for &MarkPlace { message, at, is_after } in places {
        if let Some(extent) = extents.get_mut(message) {
            let start = extent.as_ref().map_or(at, |extent| extent.range.start);
            *extent = Some(MarkedRange { range: start..at, is_whole: is_after });
        }
    }
    extents
}
