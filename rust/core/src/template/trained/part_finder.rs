//! [`PartFinder`]: finds the parts of turns, and the messages of other roles, in rendered texts.

use std::borrow::Cow;
use std::ops::Range;

use fastpack_template::json::Map;

use super::rule::encoder_pool::shared_start;
use super::rule::masked_parts::PartSearch;
use super::rule::other_spans;
use super::rule::reasoning_marks::ReasoningMarks;
use super::rule::stop_tokens::StopTokens;
use super::turn_markup::learn_markup::learned;
use super::turn_markup::message_spans;
use super::turn_markup::message_spans::AssistantTurn;
use crate::config::{TurnParts, Turns};
use crate::record::{Conversation, Fault};
use crate::template::chat::ChatTemplate;
use crate::template::conversation::is_assistant;

/// The turns of a conversation that are wanted.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "functions have none")]
pub struct WantedTurns<'w> {
    /// The documents that a conversation becomes.
    pub choice: Turns,
    /// The roles and parts that are trained.
    pub parts: &'w TurnParts,
    /// Tells if a message of the assistant belongs to the documents.
    pub is_chosen: &'w dyn Fn(usize) -> bool,
    /// Tells if a message is trained.
    pub is_trained: &'w dyn Fn(usize) -> bool,
}

/// A turn, or a message of another role, and the parts of it that are not trained as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartedTurn {
    /// The turn.
    pub turn: AssistantTurn,
    /// The bytes of it that are context.
    pub masked: Vec<Range<usize>>,
    /// The bytes of the generation prompt in front of it that are trained.
    pub prompt: Range<usize>,
}

/// A turn in the render that it is found in.
pub(super) struct TurnPlace<'p> {
    pub(super) conversation: &'p Conversation,
    /// The messages that are rendered.
    pub(super) messages: &'p [Cow<'p, Map>],
    /// Their text.
    pub(super) text: &'p str,
    /// The bytes of the turn in it.
    pub(super) span: Range<usize>,
    /// The offset of the turn in its document minus its offset here; it wraps if that is negative.
    pub(super) shift: usize,
    /// True if it continues the turn of the message before.
    pub(super) is_joined: bool,
}

/// Finds the parts of the turns of one conversation.
pub(super) struct PartFinder<'f> {
    template: &'f ChatTemplate,
    wanted: WantedTurns<'f>,
    stops: StopTokens,
    /// The messages of other roles up to this one stand in a text.
    reached: usize,
    /// The work that all renders together may still take.
    work_left: u64,
}

/// Renders for each message of a conversation: each part of a turn takes some four.
const RENDERS: u64 = 32;

impl<'f> PartFinder<'f> {
    /// A finder for a conversation of these messages.
    pub(super) fn new(
        template: &'f ChatTemplate,
        wanted: WantedTurns<'f>,
        conversation: &Conversation,
        messages: &[Cow<'_, Map>],
    ) -> Self {
        let most = template.most_work(messages, conversation);
        let work_left = most.saturating_mul(RENDERS * messages.len() as u64);
        let stops = StopTokens::of(template, conversation);
        Self { template, wanted, stops, reached: 0, work_left }
    }

    /// The parts of a turn, which stands in its document as `place` says.
    pub(super) fn part(
        &mut self,
        turn: AssistantTurn,
        place: &TurnPlace<'_>,
    ) -> Result<PartedTurn, Fault> {
        let parts = self.wanted.parts;
        let mut prompt = turn.span.start..turn.span.start;
        if !(self.wanted.is_trained)(turn.message) {
            return Ok(PartedTurn { turn, masked: Vec::new(), prompt });
        }
        if !parts.mask_generation_prompt {
            prompt.start -= self.supplied(turn.message, place)?;
        }
        let masks = parts.mask_reasoning_content || parts.mask_tool_calls;
        let masked = if masks { self.masked(turn.message, place)? } else { Vec::new() };
        Ok(PartedTurn { turn, masked, prompt })
    }

    /// The bytes of a turn, as its document has them, whose parts are context.
    fn masked(&mut self, at: usize, place: &TurnPlace<'_>) -> Result<Vec<Range<usize>>, Fault> {
        let TurnPlace { conversation, messages, text, span, shift, is_joined } = place;
        let first = (0..at).rev().take_while(|at| *is_joined && is_assistant(&messages[*at]));
        let first = first.last().unwrap_or(at);
        let none = ReasoningMarks::default();
        let marks = if self.wanted.parts.mask_reasoning_content {
            self.template.reasoning_marks()
        } else {
            &none
        };
        let (template, work_left) = (self.template, &mut self.work_left);
        let mut render = |at: usize, other: &Map| {
            let all = messages.iter().enumerate();
            let all: Vec<Cow<'_, Map>> = all
                .map(|(number, own)| Cow::Borrowed(if number == at { other } else { &**own }))
                .collect();
            let output = template.run(&all, conversation, None).ok()?;
            *work_left = work_left.checked_sub(output.work)?;
            Some(output.text)
        };
        let end = span.end - self.stops.at_end(&text[span.clone()]);
        let mut search = PartSearch {
            template: self.template,
            text,
            turn: span.start..end,
            messages: (first..=at).map(|at| (at, &*messages[at])).collect(),
            marks,
            render: &mut render,
        };
        let masked = search.masked(self.wanted.parts).ok_or_else(|| self.template.mixed(at))?;
        let moved = |at: usize| at.wrapping_add(*shift);
        Ok(masked.into_iter().map(|range| moved(range.start)..moved(range.end)).collect())
    }

    /// Bytes in front of a turn that the generation prompt has behind the messages before; 0 if the turn begins with
    /// other words, and the text has nothing of the prompt.
    fn supplied(&self, at: usize, place: &TurnPlace<'_>) -> Result<usize, Fault> {
        let before = &place.messages[..at];
        let render = |prompt| -> Result<String, Fault> {
            if before.is_empty() {
                return Ok(String::new());
            }
            Ok(self.template.run(before, place.conversation, Some(prompt))?.text)
        };
        let (history, prompted) = (render(false)?, render(true)?);
        let tokens = self.template.context.tokens.as_ref();
        let header = &prompted[shared_start(tokens, &history, &prompted)..];
        let seen = &place.text[..place.span.start];
        if header.is_empty() || seen.ends_with(header) {
            return Ok(header.len());
        }
        if seen.starts_with(history.as_str()) && prompted.starts_with(history.as_str()) {
            return Ok(seen.len() - history.len());
        }
        let starts = header.char_indices().map(|(at, _)| &header[..at]).skip(1);
        Ok(starts.filter(|begin| seen.ends_with(begin)).map(str::len).max().unwrap_or(0))
    }

    /// The messages of other roles that are trained in this text, the render of `messages`, and in no text before.
    pub(super) fn others(
        &mut self,
        conversation: &Conversation,
        messages: &[Cow<'_, Map>],
        text: &str,
    ) -> Result<Vec<AssistantTurn>, Fault> {
        let reached = self.reached;
        self.reached = reached.max(messages.len());
        let is_own = |at: usize| {
            at >= reached && !is_assistant(&messages[at]) && (self.wanted.is_trained)(at)
        };
        if !self.wanted.parts.trains_others() || !(0..messages.len()).any(is_own) {
            return Ok(Vec::new());
        }
        let hidden = || self.template.hidden("other roles than the assistant wrote");
        let base = self.template.run(messages, conversation, None)?.text;
        let spans = other_spans(self.template, conversation, messages, &base, is_own)?;
        let spans = spans.ok_or_else(hidden)?;
        let end = spans.iter().map(|(_, span)| span.end).max().unwrap_or(0);
        if !text.starts_with(&base[..end]) {
            return Err(hidden());
        }
        let learned = learned(self.template, conversation);
        Ok(message_spans::turns(self.template, learned.as_deref(), text, spans))
    }
}
