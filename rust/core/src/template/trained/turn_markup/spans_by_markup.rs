//! Finds the assistant's spans in the output of a template without `{% generation %}` blocks.
//!
//! A span begins after the generation prompt, and ends after the text that ends the turn
//! ([`turn_end_texts`](super::turn_end_texts)). There are two methods. The cheap one renders the conversation once more with
//! marks around the texts of messages ([`marked_contents`](super::marked_contents)), and searches for the learned header and end
//! of a turn around them ([`learn_markup`](super::learn_markup)). It is used where trials show
//! ([`trial`](crate::template::trained::markup_trials::trial)) that it finds the same as the definition, which renders each turn
//! and the messages before it ([`rule`]).

use std::borrow::Cow;
use std::ops::Range;

use super::learn_markup::learned;
use super::marked_contents::{ContentMarks, MarkPlace, extents};
use super::markup::TurnMarkup;
use super::turn_end_texts::MessageTail;
use crate::record::{Conversation, Fault};
use crate::template::chat::ChatTemplate;
use crate::template::conversation::is_assistant;
use crate::template::trained::rule;
use crate::template::trained::rule::turn_documents::TurnDocument;
use fastpack_template::json::{Json, Map};

/// The assistant's spans in `text`, the plain render of `messages`.
pub(in crate::template) fn derived(
    template: &ChatTemplate,
    conversation: &Conversation,
    messages: &[Cow<'_, Map>],
    text: &str,
) -> Result<Vec<Range<usize>>, Fault> {
    if !messages.iter().any(|message| is_assistant(message)) {
        return Ok(Vec::new());
    }
    if template.trusts_marks(conversation, messages)
        && let Some(spans) = from_marks(template, conversation, messages, text)
    {
        return Ok(spans);
    }
    defined(template, conversation, messages, text)
}

/// The assistant's spans in `text` by the definition, or as they are written there where that makes other documents.
pub(crate) fn defined(
    template: &ChatTemplate,
    conversation: &Conversation,
    messages: &[Cow<'_, Map>],
    text: &str,
) -> Result<Vec<Range<usize>>, Fault> {
    let found = rule::documents(template, conversation, messages, text, |_| true);
    if let Ok([TurnDocument { text: own, turns, .. }]) = found.as_deref()
        && own == text
    {
        return Ok(turns.iter().map(|(_, span)| span.clone()).collect());
    }
    let turns = rule::spans_in_whole(template, conversation, messages, text)?;
    let turns = turns.ok_or_else(|| template.hidden("the assistant wrote"))?;
    Ok(turns.into_iter().map(|(_, span)| span).collect())
}

/// Finds the spans by the headers and ends around the marked texts.
pub(crate) fn from_marks(
    template: &ChatTemplate,
    conversation: &Conversation,
    messages: &[Cow<'_, Map>],
    text: &str,
) -> Option<Vec<Range<usize>>> {
    let marks = ContentMarks::absent_from([text], messages.len())?;
    let turn = learned(template, conversation)?;
    let turn = turn.as_ref();
    let marked = template.run(&marks.mark_all(messages)?, conversation, None).ok()?;
    let (plain, places) = marks.unmark(&marked.text);
    if plain != text {
        return None;
    }
    from_places(template, turn, text, &MessageFacts::of(messages), &places)
}

/// The facts about a message that the search for its span needs.
pub(crate) struct MessageFacts {
    /// True if the assistant wrote it.
    pub(crate) by_assistant: bool,
    /// True if all of its content is text.
    pub(crate) is_text: bool,
}

impl MessageFacts {
    fn of(messages: &[Cow<'_, Map>]) -> Vec<Self> {
        let facts = messages.iter().map(|message| Self {
            by_assistant: is_assistant(message),
            is_text: !message.contains_key("tool_calls")
                && message.get("content").is_some_and(is_text),
        });
        facts.collect()
    }
}

/// True if a content is a string, or a list of text parts.
pub(crate) fn is_text(content: &Json) -> bool {
    let is_text = |part: &Json| matches!(part, Json::Map(part) if matches!(part.get("text"), Some(Json::String(_))));
    match content {
        Json::String(_) => true,
        Json::List(parts) => parts.iter().all(is_text),
        _ => false,
    }
}

/// Finds the spans by the headers and ends around the places where texts of messages begin and end in `text`.
pub(crate) fn from_places(
    template: &ChatTemplate,
    turn: &TurnMarkup,
    text: &str,
    messages: &[MessageFacts],
    places: &[MarkPlace],
) -> Option<Vec<Range<usize>>> {
    let extents = extents(places, messages.len());
    // The first place behind each message at which a text of a later one begins.
    let mut nexts = vec![text.len(); messages.len()];
    for number in (1..messages.len()).rev() {
        let start = extents[number].as_ref().map_or(text.len(), |extent| extent.range.start);
        nexts[number - 1] = nexts[number].min(start);
    }
    let mut spans: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    for (number, message) in messages.iter().enumerate() {
        let extent = extents[number].as_ref();
        if !message.by_assistant {
            at = extent.map_or(at, |extent| extent.range.end.max(at));
            continue;
        }
        let next = nexts[number];
        let shown = MessagePlace {
            is_marked: extent.is_some(),
            range: extent.map_or(next..next, |extent| extent.range.clone()),
            is_whole: message.is_text && extent.is_none_or(|extent| extent.is_whole),
            next_is_marked: extents.get(number + 1).is_none_or(Option::is_some),
        };
        if shown.range.start < at || next < shown.range.end {
            return None;
        }
        match find_span(turn, text, at, &shown, next) {
            Some(MarkedTurn::New(span)) => {
                at = span.end;
                spans.push(span);
            }
            // Some templates put several messages into one turn.
            Some(MarkedTurn::SameTurn(end)) => {
                let last = spans.last_mut()?;
                last.end = end;
                at = end;
            }
            None => return None,
        }
    }
    if spans.iter().any(|span| starts_another_turn(template, turn, &text[span.clone()])) {
        return None;
    }
    let others = places.iter().filter(|place| !messages[place.message].by_assistant);
    for place in others {
        // Spans follow each other, so it can only be inside the last one that begins before it.
        let before = spans.partition_point(|span| span.start < place.at);
        if before.checked_sub(1).is_some_and(|last| place.at < spans[last].end) {
            return None;
        }
    }
    Some(spans)
}

/// True if a span contains the token that begins the assistant's header, but not the rest of the header after
/// it.
fn starts_another_turn(template: &ChatTemplate, turn: &TurnMarkup, span: &str) -> bool {
    let Some(header) = turn.headers.last() else { return true };
    let token = template
        .context
        .special_contents
        .iter()
        .filter(|token| !token.is_empty() && header.starts_with(&***token));
    token.max_by_key(|token| token.len()).is_some_and(|token| {
        span.match_indices(&**token).any(|(at, _)| !span[at..].starts_with(header.as_str()))
    })
}

/// The place of a message's turn.
enum MarkedTurn {
    /// In a turn of its own.
    New(Range<usize>),
    /// In the turn of the message before, which ends here.
    SameTurn(usize),
}

/// The place of a message in the text, as its marks show it.
struct MessagePlace {
    /// From its first to its last mark, or an empty range before the next message if it has none.
    range: Range<usize>,
    /// True if it has marks.
    is_marked: bool,
    /// True if all of its content is between its marks.
    is_whole: bool,
    /// True if the next message has marks, or there is none.
    next_is_marked: bool,
}

/// The turn around `shown`, between `from` and `next`.
fn find_span(
    turn: &TurnMarkup,
    text: &str,
    from: usize,
    shown: &MessagePlace,
    next: usize,
) -> Option<MarkedTurn> {
    let gap = &text[from..shown.range.start];
    let shortest = turn.headers.last()?;
    let header =
        if shown.is_marked { gap.rfind(shortest.as_str()) } else { gap.find(shortest.as_str()) };
    let start = header.and_then(|at| {
        let header = turn.headers.iter().find(|header| gap[at..].starts_with(header.as_str()))?;
        Some(from + at + header.len())
    });
    let after = if shown.is_marked { shown.range.end } else { start? };
    let tail = MessageTail {
        tail: &text[after..next],
        is_marked: shown.is_marked,
        is_whole: shown.is_whole,
        next_is_marked: shown.next_is_marked,
    };
    let end = after + turn.ends.find(&tail)?;
    match start {
        Some(start) => Some(MarkedTurn::New(start..end)),
        None if shown.is_marked && gap.trim().is_empty() => Some(MarkedTurn::SameTurn(end)),
        None => None,
    }
}
