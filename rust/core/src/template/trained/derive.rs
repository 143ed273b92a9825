//! Finds the assistant's spans in the output of a template without `{% generation %}` blocks.
//!
//! A span begins after the generation prompt, and ends after the text that ends the turn
//! ([`ending`](super::ending)). There are two methods. The cheap one renders the conversation once more with
//! marks around the texts of messages ([`marks`](super::marks)), and searches for the learned header and end
//! of a turn around them ([`header`](super::header)). The expensive one renders prefixes of the conversation.
//! The result of a method is used only if its renders agree with the plain one.

use std::borrow::Cow;
use std::ops::Range;

use super::ending::{MessageTail, up_to_last_token};
use super::header::learn;
use super::marks::{MarkPlace, Marks, extents};
use super::markup::TurnMarkup;
use crate::ledger::Reason;
use crate::record::{self, Conversation, Fault};
use crate::template::chat::ChatTemplate;
use crate::template::conversation::prepared;
use crate::template::left_out::LeftOut;
use fastpack_template::json::{Json, Map};

/// Most assistant turns that are searched for by rendering prefixes. Each turn takes three renders.
const MAX_PREFIXES: usize = 32;

impl ChatTemplate {
    /// Renders a conversation, and finds the spans that the assistant wrote.
    ///
    /// Fails with [`Reason::Unmaskable`] if a template without `{% generation %}` blocks renders a record in
    /// a way that does not show the spans.
    pub fn render_with_spans(
        &self,
        conversation: &Conversation,
    ) -> std::result::Result<(String, Vec<Range<usize>>), Fault> {
        self.render_spans_noting(conversation, None)
    }

    /// Renders a conversation, finds the spans that the assistant wrote, and adds the fields that the text
    /// leaves out.
    pub(crate) fn render_spans_noting(
        &self,
        conversation: &Conversation,
        left_out: Option<&mut LeftOut>,
    ) -> std::result::Result<(String, Vec<Range<usize>>), Fault> {
        let template = self.serving(conversation);
        template.check(conversation)?;
        let messages = prepared(conversation);
        let output = template.run_whole(&messages, conversation, left_out)?;
        if template.generates {
            return Ok((output.text, output.spans));
        }
        let spans = derived(template, conversation, &messages, &output.text)?;
        Ok((output.text, spans))
    }
}

/// The assistant's spans in `text`, the plain render of `messages`.
fn derived(
    template: &ChatTemplate,
    conversation: &Conversation,
    messages: &[Cow<'_, Map>],
    text: &str,
) -> Result<Vec<Range<usize>>, Fault> {
    let turns: Vec<usize> = (0..messages.len()).filter(|at| is_assistant(&messages[*at])).collect();
    if turns.is_empty() {
        return Ok(Vec::new());
    }
    from_marks(template, conversation, messages, text)
        .or_else(|| from_prefixes(template, conversation, messages, text, &turns))
        .ok_or_else(|| {
            let limit = if turns.len() > MAX_PREFIXES {
                format!(" (its {} turns are too many to be looked for one by one)", turns.len())
            } else {
                String::new()
            };
            Fault::new(
                Reason::Unmaskable,
                format!(
                    "chat template `{}` renders this conversation in a way that does not show what the assistant \
                     wrote{limit}; use a template with {{% generation %}} blocks, or train_on=\"all\"",
                    template.name
                ),
            )
        })
}

pub(in crate::template) fn is_assistant(message: &Map) -> bool {
    matches!(message.get("role"), Some(Json::String(role)) if record::is_assistant(role))
}

/// Finds the spans by the headers and ends around the marked texts.
fn from_marks(
    template: &ChatTemplate,
    conversation: &Conversation,
    messages: &[Cow<'_, Map>],
    text: &str,
) -> Option<Vec<Range<usize>>> {
    let marks = Marks::absent_from([text], messages.len())?;
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
pub(in crate::template) struct MessageFacts {
    /// Whether the assistant wrote it.
    pub(in crate::template) by_assistant: bool,
    /// Whether all of its content is text.
    pub(in crate::template) is_text: bool,
}

impl MessageFacts {
    fn of(messages: &[Cow<'_, Map>]) -> Vec<Self> {
        let said = messages.iter().map(|message| Self {
            by_assistant: is_assistant(message),
            is_text: !message.contains_key("tool_calls")
                && message.get("content").is_some_and(is_text),
        });
        said.collect()
    }
}

/// Whether a content is a string, or a list of text parts.
pub(in crate::template) fn is_text(content: &Json) -> bool {
    let is_text = |part: &Json| matches!(part, Json::Map(part) if matches!(part.get("text"), Some(Json::String(_))));
    match content {
        Json::String(_) => true,
        Json::List(parts) => parts.iter().all(is_text),
        _ => false,
    }
}

/// Finds the spans by the headers and ends around the places where texts of messages begin and end in `text`.
pub(in crate::template) fn from_places(
    template: &ChatTemplate,
    turn: &TurnMarkup,
    text: &str,
    messages: &[MessageFacts],
    places: &[MarkPlace],
) -> Option<Vec<Range<usize>>> {
    let extents = extents(places, messages.len());
    let mut spans: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    for (number, message) in messages.iter().enumerate() {
        let extent = extents[number].as_ref();
        if !message.by_assistant {
            at = extent.map_or(at, |extent| extent.range.end.max(at));
            continue;
        }
        let next = extents[number + 1..]
            .iter()
            .flatten()
            .map(|extent| extent.range.start)
            .min()
            .unwrap_or(text.len());
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
            Some(TurnPlace::New(span)) => {
                at = span.end;
                spans.push(span);
            }
            // Some templates put several messages into one turn.
            Some(TurnPlace::SameTurn(end)) => {
                let last = spans.last_mut()?;
                last.end = end;
                at = end;
            }
            None => return None,
        }
    }
    if spans.iter().any(|span| begins_another_turn(template, turn, &text[span.clone()])) {
        return None;
    }
    let others = places.iter().filter(|place| !messages[place.message].by_assistant);
    for place in others {
        if spans.iter().any(|span| span.start < place.at && place.at < span.end) {
            return None;
        }
    }
    Some(spans)
}

/// The turn markup of a template with a conversation's keyword arguments. Without such arguments it is
/// learned once and kept.
pub(in crate::template) fn learned<'t>(
    template: &'t ChatTemplate,
    conversation: &Conversation,
) -> Option<Cow<'t, TurnMarkup>> {
    if conversation.template_kwargs.is_empty() {
        let turn = template.turn.get_or_init(|| learn(template, conversation));
        return turn.as_ref().map(Cow::Borrowed);
    }
    learn(template, conversation).map(Cow::Owned)
}

/// Whether a span contains the token that begins the assistant's header, but not the rest of the header after
/// it.
fn begins_another_turn(template: &ChatTemplate, turn: &TurnMarkup, span: &str) -> bool {
    let Some(header) = turn.headers.last() else { return true };
    let token = template
        .context
        .turn_ends
        .iter()
        .filter(|token| !token.is_empty() && header.starts_with(&***token));
    token.max_by_key(|token| token.len()).is_some_and(|token| {
        span.match_indices(&**token).any(|(at, _)| !span[at..].starts_with(header.as_str()))
    })
}

/// The place of a message's turn.
enum TurnPlace {
    /// In a turn of its own.
    New(Range<usize>),
    /// In the turn of the message before, which ends here.
    SameTurn(usize),
}

/// The place of a message in the text, as its marks show it.
struct MessagePlace {
    /// From its first to its last mark, or an empty range before the next message if it has none.
    range: Range<usize>,
    /// Whether it has marks.
    is_marked: bool,
    /// Whether all of its content is between its marks.
    is_whole: bool,
    /// Whether the next message has marks, or there is none.
    next_is_marked: bool,
}

/// The turn around `shown`, between `from` and `next`.
fn find_span(
    turn: &TurnMarkup,
    text: &str,
    from: usize,
    shown: &MessagePlace,
    next: usize,
) -> Option<TurnPlace> {
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
        Some(start) => Some(TurnPlace::New(start..end)),
        None if shown.is_marked && gap.trim().is_empty() => Some(TurnPlace::SameTurn(end)),
        None => None,
    }
}

/// The byte at which the assistant's text begins, in a turn that begins `at` and has no generation prompt.
fn after_header(turn: &TurnMarkup, text: &str, at: usize) -> Option<usize> {
    let header = turn.headers.iter().find(|header| text[at..].starts_with(header.as_str()));
    match header {
        Some(header) => Some(at + header.len()),
        None => (!turn.unprompted).then_some(at),
    }
}

/// Finds the spans by rendering the messages before each of the assistant's turns, and up to it.
fn from_prefixes(
    template: &ChatTemplate,
    conversation: &Conversation,
    messages: &[Cow<'_, Map>],
    text: &str,
    turns: &[usize],
) -> Option<Vec<Range<usize>>> {
    if turns.len() > MAX_PREFIXES {
        return None;
    }
    let known = learned(template, conversation);
    // All renders together may take the work of one.
    let mut work_left = template.most_work(messages, conversation);
    let mut spans: Vec<Range<usize>> = Vec::with_capacity(turns.len());
    for turn in turns {
        let mut length = |messages: &[Cow<'_, Map>], prompt: bool| {
            let output = template.run(messages, conversation, Some(prompt)).ok()?;
            work_left = work_left.checked_sub(output.work)?;
            text.starts_with(&output.text).then_some(output.text.len())
        };
        let before = length(&messages[..*turn], false)?;
        let prompted = length(&messages[..*turn], true)?;
        let start = if prompted == before {
            // The generation prompt is empty, so the learned header tells where the text begins.
            after_header(known.as_deref()?, text, before)?
        } else {
            prompted
        };
        let region = length(&messages[..=*turn], false)?;
        if start < before || region < start || spans.last().is_some_and(|last| last.end > before) {
            return None;
        }
        // If no markup could be learned, the turn ends with its last special token.
        let end = match known.as_deref() {
            Some(known) => known.ends.find_in(&template.context, text, &(start..region))?,
            None => start + up_to_last_token(&template.context, &text[start..region])?.len(),
        };
        spans.push(start..end);
    }
    Some(spans)
}
