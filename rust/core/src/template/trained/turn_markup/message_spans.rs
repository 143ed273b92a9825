//! Finds the message of each of the assistant's spans, and the token or text that ends its turn.

use std::ops::Range;

use fastpack_template::RenderOutput;

use super::learn_markup::learned;
use super::markup::TurnMarkup;
use crate::record::{Conversation, Fault};
use crate::template::chat::ChatTemplate;
use crate::template::conversation::left_out::LeftOut;
use crate::template::conversation::{is_assistant, prepared};

/// A stretch of text that the assistant wrote in one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssistantTurn {
    /// Index of the message in the conversation.
    pub message: usize,
    /// Byte range of the assistant's text, as [`ChatTemplate::render_with_spans`] finds it.
    pub span: Range<usize>,
    /// Byte range of the token or text that ends the turn, with the rest of the span after it. Empty if there
    /// is none.
    pub end: Range<usize>,
}

impl ChatTemplate {
    /// Renders a conversation, and finds the assistant's turns with their messages. Adds the fields that the
    /// text leaves out to `left_out`.
    ///
    /// Fails with [`Reason::Unmaskable`](crate::report::ledger::Reason::Unmaskable) if the render does not show the
    /// turns.
    pub fn render_turns(
        &self,
        conversation: &Conversation,
        left_out: Option<&mut LeftOut>,
    ) -> Result<(String, Vec<AssistantTurn>), Fault> {
        let template = self.serving(conversation);
        let RenderOutput { text, spans, span_objects, .. } =
            self.render_marked_noting(conversation, left_out)?;
        let messages = prepared(conversation);
        let speaking: Vec<usize> =
            (0..messages.len()).filter(|at| is_assistant(&messages[*at])).collect();
        let looped = looped(&span_objects, |at| speaking.contains(&at));
        let owners = match looped {
            Some(owners) => Some(owners),
            None if spans.len() == speaking.len() => Some(speaking),
            None => template.owners(conversation, &text, &spans, &speaking),
        };
        let owners = owners.ok_or_else(|| self.hidden("the assistant wrote in which message"))?;
        let learned = learned(template, conversation);
        let turns = turns(template, learned.as_deref(), &text, owners.into_iter().zip(spans));
        Ok((text, turns))
    }

    /// The message of each span, where no loop over messages tells it and there are more or fewer spans than the
    /// assistant has messages. A span belongs to the first message up to which the render contains the span.
    fn owners(
        &self,
        conversation: &Conversation,
        text: &str,
        spans: &[Range<usize>],
        speaking: &[usize],
    ) -> Option<Vec<usize>> {
        let messages = prepared(conversation);
        let mut owners = Vec::with_capacity(spans.len());
        for &message in speaking {
            let before = self.run(&messages[..=message], conversation, Some(false)).ok()?.text;
            if !text.starts_with(&before) {
                return None;
            }
            let reached = spans[owners.len()..].iter().take_while(|span| span.end <= before.len());
            owners.extend(std::iter::repeat_n(message, reached.count()));
        }
        (owners.len() == spans.len()).then_some(owners)
    }
}

/// The message of each span that a template marks in a loop over messages; `None` if one before or between them is marked
/// elsewhere. What is marked behind the loop belongs to the last of them, such as the end of the text.
pub(in crate::template) fn looped(
    span_objects: &[Option<usize>],
    is_turn: impl Fn(usize) -> bool,
) -> Option<Vec<usize>> {
    let inside = span_objects.iter().rposition(Option::is_some)? + 1;
    let owners = span_objects[..inside].iter().copied();
    let mut owners: Vec<usize> = owners.collect::<Option<_>>()?;
    owners.resize(span_objects.len(), owners[inside - 1]);
    (owners.is_sorted() && owners.iter().all(|owner| is_turn(*owner))).then_some(owners)
}

/// The turns of spans that are given with their messages.
pub(crate) fn turns(
    template: &ChatTemplate,
    learned: Option<&TurnMarkup>,
    text: &str,
    spans: impl IntoIterator<Item = (usize, Range<usize>)>,
) -> Vec<AssistantTurn> {
    let mut turns: Vec<AssistantTurn> = Vec::new();
    for (message, span) in spans {
        // Only the last span of a message ends its turn.
        if let Some(before) = turns.last_mut().filter(|before| before.message == message) {
            before.end = before.span.end..before.span.end;
        }
        let end = end_of(template, learned, text, &span);
        turns.push(AssistantTurn { message, span, end });
    }
    turns
}

/// Byte range of the token or text that ends the turn of `span`: at the end of the span, or right after it.
fn end_of(
    template: &ChatTemplate,
    learned: Option<&TurnMarkup>,
    text: &str,
    span: &Range<usize>,
) -> Range<usize> {
    let content = text[span.clone()].trim_end();
    let tokens = template.context.special_contents.iter().filter(|token| !token.is_empty());
    if let Some(token) =
        tokens.filter(|token| content.ends_with(token.as_str())).max_by_key(|it| it.len())
    {
        return span.start + content.len() - token.len()..span.end;
    }
    learned.and_then(|turn| turn.ends.around(text, span)).unwrap_or(span.end..span.end)
}
