//! Learns the text that ends the assistant's turns from renders of tiny conversations.
//!
//! A turn ends with the text that the template writes after every turn of the assistant: after a turn in the
//! middle, where the header of the next message follows, and after the last. The tokenizer need not have a
//! token for it.

use std::ops::Range;

use crate::template::context::TemplateContext;

/// The texts that a template writes after the assistant's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TurnEnds {
    end: TurnEnd,
    /// The text after the last turn of a conversation: the end of the turn, and the end of the conversation.
    /// `None` if it is not always the same.
    closing: Option<String>,
}

/// The text that ends a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TurnEnd {
    /// Every turn ends with this text, which ends with a special token.
    Token(String),
    /// Every turn ends with this text, for which there is no special token.
    Text(String),
    /// No text follows every turn.
    Open {
        /// Texts that end some of the turns. Each ends with a special token.
        some: Vec<String>,
        /// The special tokens that a message of another role may begin with. Such a token ends the turn
        /// before it: a model of this kind stops by naming the next speaker.
        next: Vec<String>,
    },
}

/// The texts of tiny conversations after the assistant's texts, and before those of the user.
pub(crate) struct ProbeTexts<'t> {
    /// From a turn in the middle to the next text of the user.
    pub(crate) middle: &'t str,
    /// From the last turn to the end of the text, in conversations of two lengths.
    pub(crate) last: [&'t str; 2],
    /// Before the first text of the user.
    pub(crate) before_user: &'t str,
}

/// The text after a message's content, and the facts about the message that tell where its turn ends.
pub(crate) struct MessageTail<'t> {
    /// From the last mark of the message, or from its header if it has none, to the next message's first mark.
    pub(crate) tail: &'t str,
    /// True if the message has marks.
    pub(crate) is_marked: bool,
    /// True if the last mark is after all of the message's content.
    pub(crate) is_whole: bool,
    /// True if the next message has marks, or there is none.
    pub(crate) next_is_marked: bool,
}

impl TurnEnds {
    /// Learns the ends of turns that begin with one of `headers` from `seen`. `None` if they cannot be found.
    pub(crate) fn learn(
        context: &TemplateContext,
        headers: &[String],
        seen: &ProbeTexts<'_>,
    ) -> Option<Self> {
        let [last, longer] = seen.last;
        let own = without_header(seen.middle, seen.before_user);
        let mut shared = shared_start(shared_start(seen.middle, last), longer);
        if shared.len() > own.len() {
            // Some templates write a generation prompt after every conversation.
            let asks = |header: &String| last.trim_end().ends_with(header.trim());
            if headers.iter().any(asks) {
                if own.is_empty() {
                    return None;
                }
                shared = own;
            }
        }
        let end = match up_to_last_token(context, shared) {
            Some(end) => TurnEnd::Token(end.to_owned()),
            None if !shared.trim().is_empty() => TurnEnd::Text(shared.trim_end().to_owned()),
            None => open(context, headers, [last, longer], own),
        };
        Some(Self { end, closing: (last == longer).then(|| last.to_owned()) })
    }

    /// The end of turns: special tokens, or the text without one that follows every turn.
    pub(crate) fn stops(&self, context: &TemplateContext) -> Vec<String> {
        let last_token = |end: &String| {
            let found = tokens(context).filter(|token| end.ends_with(token.as_str()));
            found.max_by_key(|token| token.len()).cloned()
        };
        match &self.end {
            TurnEnd::Token(end) => last_token(end).into_iter().collect(),
            TurnEnd::Text(end) => vec![end.trim().to_owned()],
            TurnEnd::Open { some, .. } => some.iter().filter_map(last_token).collect(),
        }
    }

    /// The special tokens of the next speakers, one of which ends a turn.
    pub(crate) fn next_speakers(&self) -> &[String] {
        match &self.end {
            TurnEnd::Open { next, .. } => next,
            TurnEnd::Token(_) | TurnEnd::Text(_) => &[],
        }
    }

    /// A header without the end of the turn before it, which belongs to that turn.
    pub(crate) fn without_end<'h>(&self, header: &'h str) -> &'h str {
        let (TurnEnd::Token(end) | TurnEnd::Text(end)) = &self.end else { return header };
        let rest = header.strip_prefix(end.as_str()).filter(|rest| !rest.trim().is_empty());
        rest.unwrap_or(header)
    }

    /// The byte of the tail at which the turn ends, if it can be found.
    pub(crate) fn find(&self, message: &MessageTail<'_>) -> Option<usize> {
        let MessageTail { tail, is_marked, is_whole, next_is_marked } = *message;
        let after = |end: &String| Some(tail.find(end.as_str())? + end.len());
        match &self.end {
            TurnEnd::Token(end) => after(end),
            TurnEnd::Text(end) => {
                let end = end.trim_start();
                let at = tail.find(end)?;
                let follows = tail[..at].trim().is_empty();
                // Content that is no text has no marks, and may contain the text of the end. So may the text
                // after it.
                let shows = match (is_marked, is_whole) {
                    (true, true) => follows,
                    (true, false) => next_is_marked,
                    (false, is_text) => is_text && (follows || next_is_marked),
                };
                shows.then_some(at + end.len())
            }
            // Text without marks, or text that closes a tool call, cannot be told from the next header.
            TurnEnd::Open { some, next } => some
                .iter()
                .filter_map(after)
                .min()
                .or_else(|| (is_marked && is_whole).then(|| next_speaker(next, tail))),
        }
    }

    /// The end of the turn whose trained part is `span`: within the span, or right after it.
    pub(crate) fn around(&self, text: &str, span: &Range<usize>) -> Option<Range<usize>> {
        let end_of =
            |end: &str| text[span.end..].starts_with(end).then(|| span.end..span.end + end.len());
        match &self.end {
            TurnEnd::Token(end) => end_of(end),
            TurnEnd::Open { some, .. } => {
                some.iter().filter_map(|end| end_of(end)).max_by_key(ExactSizeIterator::len)
            }
            TurnEnd::Text(end) => {
                let content = text[span.clone()].trim_end().strip_suffix(end.trim_start());
                let within = content.map(|content| span.start + content.len()..span.end);
                within.or_else(|| end_of(end))
            }
        }
    }
}

/// The ends of a template that writes no text after every turn.
fn open(context: &TemplateContext, headers: &[String], last: [&str; 2], middle: &str) -> TurnEnd {
    let starts_turns = |token: &str| headers.iter().any(|header| header.contains(token));
    let mut some: Vec<String> = Vec::new();
    // A text after only some turns could be anything, unless it ends with a special token.
    let texts = last.map(|tail| up_to_last_token(context, tail));
    for end in texts.into_iter().chain([up_to_first_token(context, middle)]).flatten() {
        if !tokens(context).any(|token| end.ends_with(token) && starts_turns(token)) {
            some.push(end.to_owned());
        }
    }
    some.sort();
    some.dedup();
    let mut special = context.special_tokens.iter();
    let begin = special.find(|(name, _)| name == "bos_token").map(|(_, content)| content);
    let next = tokens(context).filter(|token| Some(*token) != begin && !starts_turns(token));
    TurnEnd::Open { some, next: next.cloned().collect() }
}

/// The special tokens.
fn tokens(context: &TemplateContext) -> impl Iterator<Item = &String> {
    context.special_contents.iter().filter(|token| !token.is_empty())
}

/// Bytes of the blanks and the token of `next` with which `text` begins; 0 if it begins with no such token.
fn next_speaker(next: &[String], text: &str) -> usize {
    let begun = text.trim_start();
    let token = next.iter().filter(|token| begun.starts_with(token.as_str())).map(String::len);
    token.max().map_or(0, |length| text.len() - begun.len() + length)
}

/// The beginning of `text` up to the end of its last special token.
pub(crate) fn up_to_last_token<'t>(context: &TemplateContext, text: &'t str) -> Option<&'t str> {
    let ends = tokens(context).filter_map(|it| Some(text.rfind(it.as_str())? + it.len()));
    ends.max().map(|end| &text[..end])
}

/// The beginning of `text` up to the end of its first special token.
fn up_to_first_token<'t>(context: &TemplateContext, text: &'t str) -> Option<&'t str> {
    let places = tokens(context).filter_map(|it| Some((text.find(it.as_str())?, it.len())));
    let (at, length) = places.min_by_key(|(at, length)| (*at, usize::MAX - length))?;
    Some(&text[..at + length])
}

/// `text`, which follows a turn, without the header of the user's message at its end.
///
/// The header is the common end of `text` and of `before`, the text before the user's first message.
fn without_header<'t>(text: &'t str, before: &str) -> &'t str {
    let pairs = text.chars().rev().zip(before.chars().rev());
    let shared = pairs.take_while(|(left, right)| left == right);
    let longest: usize = shared.map(|(it, _)| it.len_utf8()).sum();
    // Different headers may share their last characters by chance: `</s>USER:` and `<s>USER:`.
    let is_header = |length: &usize| {
        is_edge(text, text.len() - length) && is_edge(before, before.len() - length)
    };
    let header = (0..=longest).rev().find(is_header).unwrap_or(0);
    &text[..text.len() - header]
}

/// The common prefix of two texts, without characters that they share by chance: `<|` of `<|user|>` and
/// `<|end|>`.
pub(crate) fn shared_start<'t>(left: &'t str, right: &str) -> &'t str {
    let same = left.char_indices().zip(right.chars()).find(|((_, left), right)| left != right);
    let longest = same.map_or(left.len().min(right.len()), |((at, _), _)| at);
    let is_whole = longest == left.len() || longest == right.len();
    let ends = |length: &usize| is_edge(left, *length) && is_edge(right, *length);
    let length = if is_whole { Some(longest) } else { (0..=longest).rev().find(ends) };
    &left[..length.unwrap_or(0)]
}

/// True if a word, a text in brackets, or the whole text begins or ends at `at`.
fn is_edge(text: &str, at: usize) -> bool {
    if !text.is_char_boundary(at) {
        return false;
    }
    match (text[..at].chars().next_back(), text[at..].chars().next()) {
        (Some(before), Some(after)) => {
            before.is_whitespace()
                || after.is_whitespace()
                || ">])}".contains(before)
                || "<[({#".contains(after)
        }
        _ => true,
    }
}
