//! [`FoundTurn`]: the trained part of each turn, by two renders.

use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};

use fastpack_template::IterationMemo;
use fastpack_template::json::Map;

use super::encoder_pool::shared_start;
use super::stand_in_messages::without_calls;
use super::stand_in_messages::{other_kinds, same_kind};
use super::stop_tokens::StopTokens;
use super::turn_documents::{TrainedTurn, TurnDocument, merged};
use super::unprinted_calls::shows_calls;

use crate::record::{Conversation, Fault};
use crate::report::ledger::Reason;
use crate::template::chat::ChatTemplate;
use crate::template::conversation::is_assistant;

/// A turn, found in the render of the messages up to and with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::template) struct FoundTurn {
    /// The index of its message.
    pub(in crate::template) message: usize,
    /// The byte at which the trained part begins.
    pub(in crate::template) start: usize,
    /// The byte at which it ends; blanks before that byte are left out unless it [is stopped](Self::is_stopped).
    pub(in crate::template) end: usize,
    /// True if it ends with a token at which generation stops.
    pub(in crate::template) is_stopped: bool,
    /// True if the render of the turn changes the messages before it, so that the model sees them as the prompt has
    /// them.
    pub(in crate::template) is_rewritten: bool,
    /// The index of its first message: a turn may continue the messages before its own.
    pub(in crate::template) first: usize,
    /// True if its trained part begins elsewhere than the generation prompt ends.
    pub(in crate::template) opens_otherwise: bool,
}

/// A trained turn with its texts.
#[derive(Clone, Debug)]
pub(in crate::template) struct FoundTexts {
    /// The turn.
    pub(in crate::template) found: FoundTurn,
    /// The render of the messages up to and with it.
    pub(in crate::template) text: String,
    /// The render of the messages before it with the generation prompt.
    pub(in crate::template) prompt: String,
}

impl FoundTurn {
    /// The indexes of its messages.
    pub(in crate::template) fn messages(&self) -> RangeInclusive<usize> {
        self.first..=self.message
    }

    /// True if it continues the turn of the message before it.
    fn is_joined(&self) -> bool {
        self.first < self.message
    }

    /// The turn in its text, the render of the messages up to it; `prompt` is the render of those before it with the
    /// generation prompt, which only turns need whose text [is rewritten](Self::is_rewritten).
    pub(in crate::template) fn in_text(&self, mut text: String, prompt: &str) -> TrainedTurn {
        let Self { message, start, is_stopped, .. } = *self;
        let end = if is_stopped { self.end } else { text[..self.end].trim_end().len().max(start) };
        if self.is_rewritten {
            let (text, start) = (format!("{prompt}{}", &text[start..end]), prompt.len());
            return TrainedTurn { message, text, start, is_stopped };
        }
        text.truncate(end);
        TrainedTurn { message, text, start, is_stopped }
    }
}

impl FoundTexts {
    /// The turn, and its texts.
    pub(in crate::template) fn in_text(self) -> (FoundTurn, TrainedTurn) {
        (self.found, self.found.in_text(self.text, &self.prompt))
    }
}

/// The turns of a conversation that `is_trained`.
///
/// A turn up to which the template refuses to render is context. Fails with the words of the template if it refuses
/// all turns.
pub(in crate::template) fn turns(
    template: &ChatTemplate,
    conversation: &Conversation,
    messages: &[Cow<'_, Map>],
    is_trained: impl Fn(usize) -> bool,
) -> Result<Vec<FoundTexts>, Fault> {
    let mut renders = HistoryRenderer::of(template, conversation, messages);
    let mut turns: Vec<FoundTexts> = Vec::new();
    let mut refusal = None;
    // A turn that is not chosen may go on in one that is: `turns="last"` chooses a message.
    let may_go_on = |at: usize| {
        let weight = conversation.weights.as_ref().and_then(|weights| weights[at]);
        let mut next = (at + 1..messages.len()).take_while(|next| is_assistant(&messages[*next]));
        weight.is_none() && next.any(&is_trained)
    };
    let spoken = (0..messages.len()).filter(|at| is_assistant(&messages[*at]));
    for at in spoken.filter(|at| is_trained(*at) || may_go_on(*at)) {
        match renders.turn(at, turns.last()) {
            Ok(turn) => {
                if turn.found.is_joined() {
                    turns.pop();
                }
                turns.push(turn);
            }
            Err(fault) if fault.reason == Reason::Template => {
                let message = format!("{}, for the messages up to message {at}", fault.message);
                refusal = Some(Fault::new(Reason::Template, message));
            }
            Err(fault) => return Err(fault),
        }
    }
    turns.retain(|turn| is_trained(turn.found.message));
    match refusal {
        Some(refusal) if turns.is_empty() => Err(refusal),
        _ => Ok(turns),
    }
}

/// The turns of a conversation that `is_trained`, each in its text.
///
/// Fails as [`turns`] does.
pub(in crate::template) fn trained(
    template: &ChatTemplate,
    conversation: &Conversation,
    messages: &[Cow<'_, Map>],
    is_trained: impl Fn(usize) -> bool,
) -> Result<Vec<TrainedTurn>, Fault> {
    let turns = turns(template, conversation, messages, is_trained)?.into_iter();
    Ok(turns.map(|turn| turn.in_text().1).collect())
}

/// The documents of a conversation: the fewest texts such that each turn that `is_trained` stands behind exactly the
/// text that the model sees there. `whole` is the render of all messages.
///
/// Fails as [`turns`] does.
pub(in crate::template) fn documents(
    template: &ChatTemplate,
    conversation: &Conversation,
    messages: &[Cow<'_, Map>],
    whole: &str,
    is_trained: impl Fn(usize) -> bool,
) -> Result<Vec<TurnDocument>, Fault> {
    let turns = trained(template, conversation, messages, is_trained)?;
    Ok(merged(&turns, whole, &StopTokens::of(template, conversation)))
}

/// Byte ranges of a text, each with the index of the message that it is of.
pub(in crate::template) type MessageSpans = Vec<(usize, Range<usize>)>;

/// The spans of the turns in `whole`, the render of all messages, as they are written there, with their messages. `None`
/// if a turn cannot be found.
pub(in crate::template) fn spans_in_whole(
    template: &ChatTemplate,
    conversation: &Conversation,
    messages: &[Cow<'_, Map>],
    whole: &str,
) -> Result<Option<MessageSpans>, Fault> {
    let mut renders = HistoryRenderer::of(template, conversation, messages);
    let mut spans = MessageSpans::new();
    let mut reached = 0;
    for (at, message) in messages.iter().enumerate() {
        let words_end = renders.words_end_in(at, whole, reached)?;
        if is_assistant(message) && words_end > reached {
            let Some(span) = renders.span_in(at, whole, reached, words_end)? else {
                return Ok(None);
            };
            reached = span.end;
            spans.push((at, span));
        } else {
            reached = words_end;
        }
    }
    spans.retain(|(_, span)| !span.is_empty());
    Ok(Some(spans))
}

/// The spans of messages of other roles than the assistant's in `whole`, the render of `messages`: of those that
/// `is_trained`, the text behind the header of their role, up to and with their end. `None` if a message
/// cannot be found.
pub(in crate::template) fn other_spans(
    template: &ChatTemplate,
    conversation: &Conversation,
    messages: &[Cow<'_, Map>],
    whole: &str,
    is_trained: impl Fn(usize) -> bool,
) -> Result<Option<MessageSpans>, Fault> {
    let mut renders = HistoryRenderer::of(template, conversation, messages);
    let mut spans = MessageSpans::new();
    let mut reached = 0;
    for at in 0..messages.len() {
        let words_end = renders.words_end_in(at, whole, reached)?;
        if words_end > reached && is_trained(at) {
            let Some(span) = renders.span_in(at, whole, reached, words_end)? else {
                return Ok(None);
            };
            spans.push((at, span));
        }
        reached = words_end;
    }
    Ok(Some(spans))
}

/// The most work of all renders of a conversation: 68 s on one core for 70,000 messages of a published template (2026-11-29,
/// profile ci).
const MOST_WORK: u64 = 1 << 34;

/// Renders the first messages of a conversation, with replacements for the last of them.
struct HistoryRenderer<'c> {
    template: &'c ChatTemplate,
    conversation: &'c Conversation,
    messages: &'c [Cow<'c, Map>],
    stops: StopTokens,
    /// The work that all renders together may still take.
    work_left: u64,
    /// The iterations of the template's loops over the messages.
    memo: Option<IterationMemo<'c>>,
}

impl<'c> HistoryRenderer<'c> {
    fn of(
        template: &'c ChatTemplate,
        conversation: &'c Conversation,
        messages: &'c [Cow<'c, Map>],
    ) -> Self {
        // As much as ten renders of each message's prefix may take, within a bound for conversations of many messages.
        let renders = 10 * messages.len() as u64;
        let work_left = template.most_work(messages, conversation).saturating_mul(renders);
        let work_left = work_left.min(MOST_WORK);
        let stops = StopTokens::of(template, conversation);
        let memo = template.memo(messages, conversation);
        Self { template, conversation, messages, stops, work_left, memo }
    }

    /// The text of the first `count` messages, and of `last` behind them; the generation prompt behind them if asked
    /// for. `transformers` refuses a conversation without messages.
    fn render(&mut self, count: usize, last: &[&Map], prompt: bool) -> Result<String, Fault> {
        if count + last.len() == 0 {
            return Ok(String::new());
        }
        let first = self.messages[..count].iter().map(|message| Cow::Borrowed(&**message));
        let messages: Vec<Cow<'_, Map>> =
            first.chain(last.iter().map(|message| Cow::Borrowed(*message))).collect();
        self.run(&messages, Some(prompt))
    }

    /// The text of some messages.
    fn run(&mut self, messages: &[Cow<'_, Map>], prompt: Option<bool>) -> Result<String, Fault> {
        let Self { template, conversation, memo, .. } = self;
        let output = template.run_again(messages, conversation, prompt, memo.as_mut())?;
        self.take(output.work)?;
        Ok(output.text)
    }

    /// The text of some messages; `None` if the template refuses them.
    fn run_if_taken(&mut self, messages: &[Cow<'_, Map>]) -> Result<Option<String>, Fault> {
        match self.run(messages, None) {
            Err(fault) if fault.reason == Reason::Template => Ok(None),
            rendered => rendered.map(Some),
        }
    }

    /// Counts the work of a render.
    fn take(&mut self, work: u64) -> Result<(), Fault> {
        let left = self.work_left.checked_sub(work);
        self.work_left = left.ok_or_else(|| {
            self.template.hidden("the assistant wrote, within the work that it may take")
        })?;
        Ok(())
    }

    /// The turn at message `at`; `previous` is the turn before it.
    fn turn(&mut self, at: usize, previous: Option<&FoundTexts>) -> Result<FoundTexts, Fault> {
        let message: &Map = &self.messages[at];
        let history = self.render(at, &[], false)?;
        let prompt = self.render(at, &[], true)?;
        let text = self.render(at + 1, &[], false)?;
        let header = prompt.strip_prefix(history.as_str()).unwrap_or_default();
        let same = self.shared_tokens(&prompt, &text);
        // A text that begins with the whole prompt rewrites no earlier message. Only a message that may go on with this turn
        // asks how far the words before it reach.
        let continues_prompt = !header.is_empty() && same == prompt.len();
        let is_last_of_run = self.messages.get(at + 1).is_none_or(|next| !is_assistant(next));
        // The text in front of the turn, as far as the words of the message before it reach.
        let before = match at.checked_sub(1).filter(|_| !(continues_prompt && is_last_of_run)) {
            Some(previous) => {
                let other = same_kind(&self.messages[previous]);
                let other = self.render(previous, &[&other, message], false).unwrap_or_default();
                behind_words(&text, &other, 0)
            }
            None => 0,
        };
        let reprinted = text.get(before..).and_then(|rest| rest.find(header));
        let joined = previous.filter(|previous| {
            let start = previous.found.start;
            previous.found.message + 1 == at
                && !header.is_empty()
                && same < prompt.len()
                && reprinted.is_none()
                && !previous.found.is_rewritten
                && text.get(..start) == previous.text.get(..start)
        });
        let joined = match joined {
            Some(_) if self.writes_header(at, &text, before)? => None,
            joined => joined,
        };
        let start = if let Some(previous) = joined {
            previous.found.start
        } else if continues_prompt {
            same
        } else if let (false, true, Some(found)) = (header.is_empty(), same < before, reprinted) {
            // Earlier messages are written otherwise once the turn is there. The model sees them as the prompt
            // has them.
            before + found + header.len()
        } else {
            self.behind_header(at, &text, before, same, header.is_empty())
        };
        let other = same_kind(message);
        let other = self.render(at, &[&other], false).unwrap_or_default();
        let other = if other.is_empty() { &text } else { &other };
        let words_end = behind_words(&text, other, start);
        let stop = self.stops.first_in(&text[words_end..]);
        let mut is_stopped = stop.is_some();
        let mut end = if let Some(stop) = &stop {
            words_end + stop.end
        } else {
            let reopened = reopened(&text[..start], &text[words_end..]);
            if reopened > 0 && self.template.context.stops.is_empty() {
                let what = format!("ends what the assistant wrote in message {at}");
                return Err(self.template.hidden(&what));
            }
            text.len() - reopened
        };
        if let Some(silent) = without_calls(message)
            && !shows_calls(message, &text[..start], &text[start..], &self.template.source)
            && self.render(at, &[&silent], false).is_ok_and(|without| without == text)
        {
            // The template writes no calls. The rest would teach to say nothing.
            (end, is_stopped) = (start, true);
        }
        let is_rewritten = same < before && !header.is_empty() && text[..start].ends_with(header);
        let is_rewritten = is_rewritten && joined.is_none();
        let (first, opens_otherwise) = match joined {
            Some(previous) => (previous.found.first, previous.found.opens_otherwise),
            None => (at, !is_rewritten && text[..start] != prompt),
        };
        let found =
            FoundTurn { message: at, start, end, is_stopped, is_rewritten, first, opens_otherwise };
        Ok(FoundTexts { found, text, prompt })
    }

    /// The byte behind the last words of message `at` in the render of all messages; `reached` if it has none there. What the
    /// assistant said without words ends where its words would stand.
    fn words_end_in(&mut self, at: usize, whole: &str, reached: usize) -> Result<usize, Fault> {
        let message = &self.messages[at];
        let other = self.replaced(at, &same_kind(message))?;
        if other != whole {
            return Ok(behind_words(whole, &other, 0).max(reached));
        }
        if !is_assistant(message) || self.is_hidden_in(at, whole)? {
            return Ok(reached);
        }
        let [other_words, ..] = other_kinds(message);
        let other_words = self.replaced(at, &other_words)?;
        Ok(self.shared_tokens(&other_words, whole).max(reached))
    }

    /// True if the render of all messages is the same without message `at`.
    fn is_hidden_in(&mut self, at: usize, whole: &str) -> Result<bool, Fault> {
        let mut messages: Vec<Cow<'_, Map>> =
            self.messages.iter().map(|message| Cow::Borrowed(&**message)).collect();
        messages.remove(at);
        Ok(self.run_if_taken(&messages)?.is_some_and(|text| text == whole))
    }

    /// The byte behind the last words of message `at` in `text`, the render of the messages up to it, or where they would stand.
    fn own_words_end(&mut self, at: usize, text: &str) -> Result<usize, Fault> {
        let other = self.render(at, &[&same_kind(&self.messages[at])], false)?;
        if other != text {
            return Ok(behind_words(text, &other, 0));
        }
        let [other_words, ..] = other_kinds(&self.messages[at]);
        let other_words = self.render(at, &[&other_words], false)?;
        Ok(self.shared_tokens(&other_words, text))
    }

    /// The render of all messages with another one in the place of message `at`; empty if the template refuses it.
    fn replaced(&mut self, at: usize, other: &Map) -> Result<String, Fault> {
        let messages = self.messages.iter().enumerate();
        let messages: Vec<Cow<'_, Map>> = messages
            .map(|(number, message)| Cow::Borrowed(if number == at { other } else { &**message }))
            .collect();
        Ok(self.run_if_taken(&messages)?.unwrap_or_default())
    }

    /// The trained span of the turn at message `at` in the render of all messages, in which the text of the messages
    /// before it ends at `reached`, and its own words at `words_end`.
    fn span_in(
        &mut self,
        at: usize,
        whole: &str,
        reached: usize,
        words_end: usize,
    ) -> Result<Option<Range<usize>>, Fault> {
        let (history, prompt) = if is_assistant(&self.messages[at]) {
            (self.render(at, &[], false)?, self.render(at, &[], true)?)
        } else {
            Default::default()
        };
        let header = prompt.strip_prefix(history.as_str()).unwrap_or_default();
        let found = whole[reached..words_end].find(header).filter(|_| !header.is_empty());
        let start = if let Some(found) = found {
            reached + found + header.len()
        } else {
            let mut start = words_end;
            // A role that has no calls may be written as one that has them.
            let kinds = if is_assistant(&self.messages[at]) { 4 } else { 2 };
            for other in other_kinds(&self.messages[at]).into_iter().take(kinds) {
                let other = self.replaced(at, &other)?;
                let shared = self.shared_tokens(&other, whole);
                if shared >= reached {
                    start = start.min(shared);
                }
            }
            start
        };
        let text = self.render(at + 1, &[], false)?;
        // The text that the template writes behind the turn in any place.
        let own = self.own_words_end(at, &text)?;
        // The words of the turn may come again behind it: the name of a function stands before its result, too.
        let opened = text[..own].rfind(header).filter(|_| !header.is_empty());
        let words = opened.map(|opened| &text[opened + header.len()..own]);
        let words = words.filter(|words| whole[start..].starts_with(words));
        let words_end = words.map_or(words_end, |words| start + words.len());
        let rest = &whole[words_end..];
        let reopened = reopened(&whole[..start], &text[own..]);
        if reopened > 0 && self.template.context.stops.is_empty() {
            return Ok(None);
        }
        let closing = text[own..text.len() - reopened].trim_end();
        let shared = rest.char_indices().zip(closing.chars()).take_while(|((_, a), b)| a == b);
        let closing = shared.last().map_or(0, |((at, c), _)| at + c.len_utf8());
        let end = match (self.stops.first_in(&rest[..closing]), self.stops.written_in(rest)) {
            (Some(stop), _) => stop.end,
            // Earlier turns may end otherwise than the last.
            (None, written) if written > 0 => written,
            _ => closing + self.stops.before_next(&rest[closing..]),
        };
        Ok(Some(start..words_end + end))
    }

    /// The byte behind the header that all kinds of messages of the turn's role share, and behind the tokens that the
    /// prompt shares with the text.
    fn behind_header(
        &mut self,
        at: usize,
        text: &str,
        before: usize,
        same: usize,
        is_unprompted: bool,
    ) -> usize {
        let end = self.header_end(at, text, before);
        // Without a prompt the model generates the blanks too.
        let end = if is_unprompted { text[..end].trim_end().len() } else { end };
        same.max(end)
    }

    /// The byte behind the common beginning of all kinds of messages of the role of message `at`, not before `before`.
    fn header_end(&mut self, at: usize, text: &str, before: usize) -> usize {
        let mut end = None;
        for other in other_kinds(&self.messages[at]) {
            // The template may not know this kind.
            let Ok(other) = self.render(at, &[&other], false) else { continue };
            let shared = self.shared_tokens(&other, text);
            if shared >= before {
                end = Some(end.map_or(shared, |end: usize| end.min(shared)));
            }
        }
        end.unwrap_or(before)
    }

    /// True if the template writes the header of the assistant between message `at` and the one before it, as it does
    /// for the first of the messages that follow one another here.
    fn writes_header(&mut self, at: usize, text: &str, before: usize) -> Result<bool, Fault> {
        let run = self.messages[..at].iter().rev().take_while(|message| is_assistant(message));
        let first = at - run.count();
        let history = self.render(first, &[], false)?;
        let opened = self.render(first + 1, &[], false)?;
        let begin = self.shared_tokens(&history, &opened);
        let header = opened[begin..self.header_end(first, &opened, begin)].trim();
        let end = self.header_end(at, text, before);
        Ok(text[before..end].contains(header))
    }

    /// Bytes of `text` in the tokens with which `other` begins too.
    fn shared_tokens(&self, other: &str, text: &str) -> usize {
        shared_start(self.template.context.tokens.as_ref(), other, text)
    }
}

/// Bytes at the end of the text behind a turn with which the text before the turn ends too: a template may write the
/// header of another turn behind each conversation.
fn reopened(before: &str, behind: &str) -> usize {
    let words = behind.trim_end();
    let pairs = before.trim_end().chars().rev().zip(words.chars().rev());
    let shared = pairs.take_while(|(one, other)| one == other).map(|(c, _)| c);
    let length: usize = shared.map(char::len_utf8).sum();
    // A text that begins inside of a word or a mark is the end of another: `think>` of `</think>`.
    let (other, same) = words.split_at(words.len() - length);
    let is_broken =
        same.starts_with(char::is_alphanumeric) && other.ends_with(|c: char| !c.is_whitespace());
    let is_header = !is_broken && same.contains(char::is_alphanumeric);
    if is_header { behind.len() - words.len() + length } else { 0 }
}

/// The byte of `text` behind the last words that differ from those of `other`, not before `start`.
fn behind_words(text: &str, other: &str, start: usize) -> usize {
    if text == other {
        return start;
    }
    let alike = text.chars().rev().zip(other.chars().rev());
    let alike = alike.take_while(|(left, right)| left == right).map(|(c, _)| c.len_utf8());
    // The other text may be shorter than the text before `start`.
    (text.len() - alike.sum::<usize>()).max(start)
}
