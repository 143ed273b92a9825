//! [`MessageWords`]: the words of one part of a message, and the message with others in their place, or without them.

use std::ops::Range;
use std::sync::Arc;

use fastpack_template::json::{Json, Map};

use super::reasoning_marks::{MixedParts, ReasoningMarks};
use super::stand_in_messages::{has_calls, other_call};
use crate::template::conversation::{CALLS, REASONING};

/// A part of the assistant's text in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::template) enum TurnPart {
    Reasoning,
    Content,
    Calls,
}

/// The words of one part of a message.
#[derive(Clone, Debug)]
pub(in crate::template) struct MessageWords {
    pub(in crate::template) part: TurnPart,
    place: WordsPlace,
}

/// The place of words in a message.
#[derive(Clone, Debug)]
enum WordsPlace {
    /// The fields of reasoning.
    Fields,
    /// The parts of a content that are thoughts.
    Thoughts,
    /// The reasoning in a text of the content.
    Inline(InlineReasoning),
    /// The content, behind the reasoning in it.
    Content(Option<InlineReasoning>),
    Calls,
}

/// The place of reasoning in a content.
#[derive(Clone, Debug, PartialEq, Eq)]
struct InlineReasoning {
    /// The part of a content that is a list.
    part: Option<usize>,
    /// The words between the marks.
    words: Range<usize>,
    /// The byte where the answer begins.
    end: usize,
}

const CONTENT: &str = "content";
const TEXT: &str = "text";

/// The words of a message of the assistant, with the reasoning in its content told by `marks`. `None` if reasoning and
/// answer cannot be told apart.
pub(in crate::template) fn words(
    message: &Map,
    marks: &ReasoningMarks,
) -> Option<Vec<MessageWords>> {
    let mut found = Vec::new();
    let fields = REASONING.iter().filter_map(|name| message.get(*name));
    let mut has_field = false;
    for value in fields {
        match value {
            Json::String(text) => has_field |= !text.trim().is_empty(),
            Json::List(items) if items.is_empty() => {}
            Json::Null | Json::Bool(false) => {}
            _ => return None,
        }
    }
    let mut add = |part, place| found.push(MessageWords { part, place });
    if has_field {
        add(TurnPart::Reasoning, WordsPlace::Fields);
    }
    if parts(message).iter().any(|part| thought(part).is_some_and(|text| !text.trim().is_empty())) {
        add(TurnPart::Reasoning, WordsPlace::Thoughts);
    }
    let inline = inline(message, marks).ok()?;
    if let Some(inline) = inline.clone().filter(|inline| !inline.words.is_empty()) {
        add(TurnPart::Reasoning, WordsPlace::Inline(inline));
    }
    let end = |part: Option<usize>| {
        inline.as_ref().filter(|inline| inline.part == part).map_or(0, |inline| inline.end)
    };
    if texts(message).any(|(part, text)| !text[end(part)..].trim().is_empty()) {
        add(TurnPart::Content, WordsPlace::Content(inline));
    }
    let is_call = |name: &str| matches!(message.get(name), Some(Json::Map(_)));
    if has_calls(message) || is_call(CALLS[1]) {
        add(TurnPart::Calls, WordsPlace::Calls);
    }
    Some(found)
}

/// The message with reasoning of this one word in a field.
pub(in crate::template) fn with_reasoning(message: &Map, word: &str) -> Map {
    let mut thinking = message.clone();
    for name in REASONING {
        thinking.insert(name.into(), Json::String(word.into()));
    }
    thinking
}

/// The message without its reasoning; `None` if reasoning and answer cannot be told apart.
pub(in crate::template) fn without_reasoning(message: &Map, marks: &ReasoningMarks) -> Option<Map> {
    let mut left = message.clone();
    for name in REASONING {
        left.shift_remove(name);
    }
    if parts(&left).iter().any(|part| thought(part).is_some()) {
        left = MessageWords { part: TurnPart::Reasoning, place: WordsPlace::Thoughts }
            .removed_from(&left);
    }
    Some(match inline(&left, marks).ok()? {
        Some(inline) => {
            MessageWords { part: TurnPart::Reasoning, place: WordsPlace::Inline(inline) }
                .removed_from(&left)
        }
        None => left,
    })
}

impl MessageWords {
    /// The message with other words in the place of these, which begin and end otherwise.
    pub(in crate::template) fn replaced_in(&self, message: &Map) -> Map {
        let mut other = message.clone();
        match &self.place {
            WordsPlace::Fields => {
                for name in REASONING {
                    if let Some(Json::String(text)) = message.get(name) {
                        let text = other_words(text);
                        other.insert(name.into(), Json::String(text.into()));
                    }
                }
            }
            WordsPlace::Thoughts => change_parts(&mut other, |_, part| {
                let Some(text) = thought(part).map(other_words) else { return Some(part.clone()) };
                let Json::Map(part) = part else { return None };
                let mut part = (**part).clone();
                for (key, value) in &mut part {
                    if matches!(value, Json::String(_)) && is_text_of_thought(key) {
                        *value = Json::String(text.as_str().into());
                    }
                }
                Some(Json::Map(Arc::new(part)))
            }),
            WordsPlace::Inline(InlineReasoning { part, words, .. }) => {
                set_text(&mut other, *part, |text| {
                    let middle = other_words(&text[words.clone()]);
                    format!("{}{middle}{}", &text[..words.start], &text[words.end..])
                });
            }
            WordsPlace::Content(inline) => {
                for (part, text) in texts(message) {
                    let end = end_in(inline.as_ref(), part);
                    if !text[end..].trim().is_empty() {
                        set_text(&mut other, part, |text| {
                            format!("{}{}", &text[..end], other_words(&text[end..]))
                        });
                    }
                }
            }
            WordsPlace::Calls => {
                if let Some(Json::List(calls)) = message.get(CALLS[0]) {
                    let calls = calls.iter().map(other_call).collect();
                    other.insert(CALLS[0].into(), Json::List(Arc::new(calls)));
                }
                if let Some(call) = message.get(CALLS[1]) {
                    other.insert(CALLS[1].into(), other_call(call));
                }
            }
        }
        other
    }

    /// The message without these words.
    pub(in crate::template) fn removed_from(&self, message: &Map) -> Map {
        let mut other = message.clone();
        match &self.place {
            WordsPlace::Fields => REASONING.iter().for_each(|name| drop(other.shift_remove(*name))),
            WordsPlace::Thoughts => {
                change_parts(&mut other, |_, part| thought(part).is_none().then(|| part.clone()));
            }
            WordsPlace::Inline(InlineReasoning { part, end, .. }) => {
                set_text(&mut other, *part, |text| text[*end..].to_owned());
            }
            WordsPlace::Content(inline) => match message.get(CONTENT) {
                Some(Json::List(_)) => change_parts(&mut other, |number, part| {
                    let end = end_in(inline.as_ref(), Some(number));
                    match (text_of(part), part) {
                        (Some(text), Json::Map(part)) if end > 0 => {
                            let mut part = (**part).clone();
                            part.insert(TEXT.into(), Json::String(text[..end].into()));
                            Some(Json::Map(Arc::new(part)))
                        }
                        (Some(_), _) => None,
                        _ => Some(part.clone()),
                    }
                }),
                _ => set_text(&mut other, None, |text| {
                    text[..end_in(inline.as_ref(), None)].to_owned()
                }),
            },
            WordsPlace::Calls => CALLS.iter().for_each(|name| drop(other.shift_remove(*name))),
        }
        other
    }
}

/// The byte behind the reasoning in this part of a content; 0 if there is none in it.
fn end_in(inline: Option<&InlineReasoning>, part: Option<usize>) -> usize {
    inline.filter(|inline| inline.part == part).map_or(0, |inline| inline.end)
}

/// One character in the place of words, between the blanks around them: it is neither their first nor their last.
fn other_words(words: &str) -> String {
    let inner = words.trim();
    let (first, last) = (inner.chars().next(), inner.chars().next_back());
    let other = ['0', '1', '2'].into_iter().find(|c| Some(*c) != first && Some(*c) != last);
    let begin = words.len() - words.trim_start().len();
    let end = begin + inner.len();
    format!("{}{}{}", &words[..begin], other.unwrap_or('0'), &words[end..])
}

/// The parts of a content that is a list.
fn parts(message: &Map) -> &[Json] {
    match message.get(CONTENT) {
        Some(Json::List(parts)) => parts,
        _ => &[],
    }
}

/// The text of a part that is one.
fn text_of(part: &Json) -> Option<&str> {
    match part {
        Json::String(text) => Some(text),
        Json::Map(map) if thought(part).is_none() => match map.get(TEXT) {
            Some(Json::String(text)) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// The words of a part that is a thought.
fn thought(part: &Json) -> Option<&str> {
    let Json::Map(part) = part else { return None };
    let Some(Json::String(kind)) = part.get("type") else { return None };
    let is_thought = REASONING.contains(&&**kind);
    let texts = part.iter().filter(|(key, _)| is_thought && is_text_of_thought(key));
    let mut texts = texts.filter_map(|(_, value)| match value {
        Json::String(text) => Some(&**text),
        _ => None,
    });
    texts.next()
}

fn is_text_of_thought(key: &str) -> bool {
    key == TEXT || REASONING.contains(&key)
}

/// The texts of a content: the content itself, or those of its parts.
fn texts(message: &Map) -> impl Iterator<Item = (Option<usize>, &str)> {
    let own = match message.get(CONTENT) {
        Some(Json::String(text)) => Some((None, &**text)),
        _ => None,
    };
    let listed = parts(message).iter().enumerate();
    let listed = listed.filter_map(|(number, part)| Some((Some(number), text_of(part)?)));
    own.into_iter().chain(listed)
}

/// Changes the text of the content, or of one of its parts.
fn set_text(message: &mut Map, part: Option<usize>, change: impl Fn(&str) -> String) {
    if part.is_none() {
        if let Some(Json::String(text)) = message.get(CONTENT) {
            let text = change(text);
            message.insert(CONTENT.into(), Json::String(text.into()));
        }
        return;
    }
    change_parts(message, |number, part_of| match (text_of(part_of), part_of) {
        (Some(text), Json::Map(map)) if Some(number) == part => {
            let mut map = (**map).clone();
            map.insert(TEXT.into(), Json::String(change(text).into()));
            Some(Json::Map(Arc::new(map)))
        }
        (Some(text), Json::String(_)) if Some(number) == part => {
            Some(Json::String(change(text).into()))
        }
        _ => Some(part_of.clone()),
    });
}

/// Changes or removes the parts of a content that is a list. A content without parts becomes an empty text.
fn change_parts(message: &mut Map, change: impl Fn(usize, &Json) -> Option<Json>) {
    let changed = parts(message).iter().enumerate();
    let changed: Vec<Json> = changed.filter_map(|(number, part)| change(number, part)).collect();
    let changed =
        if changed.is_empty() { Json::String("".into()) } else { Json::List(Arc::new(changed)) };
    message.insert(CONTENT.into(), changed);
}

/// The reasoning in a content, if there is some.
fn inline(message: &Map, marks: &ReasoningMarks) -> Result<Option<InlineReasoning>, MixedParts> {
    let mut found = None;
    for (number, (part, text)) in texts(message).enumerate() {
        if let Some((words, end)) = marks.reasoning_in(text)? {
            if number > 0 {
                return Err(MixedParts);
            }
            found = Some(InlineReasoning { part, words, end });
        }
    }
    Ok(found)
}
