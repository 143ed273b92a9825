//! How a template begins and ends the assistant's turns, learned from what it makes of tiny conversations.

use std::borrow::Cow;

use super::ending::{Ends, Seen, shared_start};
use super::marks::{Extent, Marks, extents};
use super::markup::TurnMarkup;
use crate::record::{Conversation, write_json};
use crate::template::chat::ChatTemplate;
use fastpack_template::json::{Map, Value as Json};

/// The roles of the longest conversation of which turns are learned.
const TWO_EXCHANGES: [&str; 4] = ["user", "assistant", "user", "assistant"];

/// Learns the turns of `template` under a conversation's keyword arguments.
pub(in crate::template) fn learn(
    template: &ChatTemplate,
    conversation: &Conversation,
) -> Option<TurnMarkup> {
    let probe = Probe::new(template, conversation)?;
    let before = probe.render(&["user"], false)?;
    let prompted = probe.render(&["user"], true)?;
    // Without a prompt, some templates close the whole conversation instead.
    let shared = &before.text[..shared_length(&before.text, &prompted.text)];
    let prompt = &prompted.text[shared.len()..];
    let exchanges =
        [probe.render(&TWO_EXCHANGES[..2], false)?, probe.render(&TWO_EXCHANGES, false)?];
    let mut headers: Vec<String> = Vec::new();
    let mut unprompted = false;
    for exchange in &exchanges {
        if prompt.is_empty() {
            let (header, own) = unprompted_header(&prompted, exchange)?;
            headers.push(header);
            unprompted |= own;
            continue;
        }
        let length = shared_length(prompt, exchange.text.strip_prefix(shared)?);
        let mut header = &prompt[..length];
        if length < prompt.len() {
            // What differs may share its first characters by chance; a header ends with a line or a token.
            header = &header[..header.rfind(['\n', '>', ']']).map_or(0, |at| at + 1)];
        }
        if header.is_empty() {
            return None;
        }
        // A turn may lack the end of the prompt, such as the `<think>` line that a template forces; but what is left
        // has to tell the assistant's turns from others.
        let lines = header
            .match_indices('\n')
            .map(|(at, _)| &header[..=at])
            .filter(|line| !shared.contains(*line));
        for header in lines.chain([header]) {
            if !header.is_empty() && !headers.iter().any(|known| known == header) {
                headers.push(header.to_owned());
            }
        }
    }
    headers.retain(|header| !header.trim().is_empty());
    headers.dedup();
    if headers.is_empty() {
        return None;
    }
    let ends = learn_ends(&probe, &headers, &before, &exchanges)?;
    for header in &mut headers {
        *header = ends.without_end(header).to_owned();
    }
    headers.sort_by_key(|header| std::cmp::Reverse(header.len()));
    Some(TurnMarkup { headers, ends, unprompted })
}

/// The ends of the turns in conversations of one and of two exchanges.
fn learn_ends(
    probe: &Probe<'_>,
    headers: &[String],
    before: &Marked,
    [one, two]: &[Marked; 2],
) -> Option<Ends> {
    let seen = Seen {
        middle: two.behind(1, Some(2))?,
        last: [one.behind(1, None)?, two.behind(3, None)?],
        before_user: before.before(0)?,
    };
    Ends::learn(&probe.template.context, headers, &seen)
}

/// Tiny conversations under the keyword arguments of a conversation.
struct Probe<'t> {
    template: &'t ChatTemplate,
    conversation: Conversation,
    marks: Marks,
}

impl<'t> Probe<'t> {
    fn new(template: &'t ChatTemplate, conversation: &Conversation) -> Option<Self> {
        let conversation = Conversation { tools: None, ..conversation.clone() };
        // A template prints what it likes of its keyword arguments, and characters of its own.
        let mut texts = [&template.context.kwargs, &conversation.template_kwargs].map(|kwargs| {
            let mut text = Vec::new();
            write_json(&Json::Map(kwargs.clone().into()), &mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let plain = template.run(&messages(&TWO_EXCHANGES), &conversation, Some(true));
        texts[0].extend(plain.ok().map(|output| output.text));
        let marks = Marks::absent_from(texts.iter().map(String::as_str), TWO_EXCHANGES.len())?;
        Some(Self { template, conversation, marks })
    }

    /// Renders a conversation of these roles; nothing if the template takes no such conversation.
    fn render(&self, roles: &[&str], prompt: bool) -> Option<Marked> {
        let messages = messages(roles);
        let marked = self.marks.mark_all(&messages)?;
        let text = self.template.run(&marked, &self.conversation, Some(prompt)).ok()?.text;
        let (plain, places) = self.marks.unmark(&text);
        let extents = extents(&places, roles.len());
        Some(Marked { text, plain, extents })
    }
}

/// A tiny conversation with marks around its words.
struct Marked {
    text: String,
    plain: String,
    extents: Vec<Option<Extent>>,
}

impl Marked {
    /// The text before the words of a message.
    fn before(&self, message: usize) -> Option<&str> {
        self.plain.get(..self.extents.get(message)?.as_ref()?.range.start)
    }

    /// The text behind the words of a message, up to those of the next one, or to the end.
    fn behind(&self, message: usize, next: Option<usize>) -> Option<&str> {
        let from = self.extents.get(message)?.as_ref()?.range.end;
        let to = match next {
            Some(next) => self.extents.get(next)?.as_ref()?.range.start,
            None => self.plain.len(),
        };
        self.plain.get(from..to)
    }
}

/// Messages of these roles, each of one letter.
fn messages<'m>(roles: &[&str]) -> Vec<Cow<'m, Map>> {
    let message = |role: &&str| {
        let entries = [("role", *role), ("content", "x")];
        let message: Map = entries
            .map(|(key, text)| (key.into(), Json::String(text.into())))
            .into_iter()
            .collect();
        Cow::Owned(message)
    };
    roles.iter().map(message).collect()
}

/// The text before the assistant's first words where no prompt tells, and whether it is the turn's own.
///
/// That is the text between the user's turn and the assistant's words; where there is none but blanks, as after a
/// closing `[/INST]`, it is the end of the user's turn, which the assistant's follows at once.
fn unprompted_header(user: &Marked, exchange: &Marked) -> Option<(String, bool)> {
    let tail = user.behind(0, None)?;
    let between = exchange.behind(0, Some(1))?;
    // Behind the last turn, some templates close the whole conversation.
    let own = &between[shared_start(between, tail).len()..];
    Some(if own.trim().is_empty() { (tail.to_owned(), false) } else { (own.to_owned(), true) })
}

/// How many bytes two texts have in common at their beginning.
fn shared_length(left: &str, right: &str) -> usize {
    let differ = left.char_indices().zip(right.chars()).find(|((_, left), right)| left != right);
    differ.map_or(left.len().min(right.len()), |((at, _), _)| at)
}
