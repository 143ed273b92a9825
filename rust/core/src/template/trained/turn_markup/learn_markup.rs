//! Learns the markup of the assistant's turns from renders of tiny conversations.

use std::borrow::Cow;

use super::marked_contents::{ContentMarks, MarkedRange, extents};
use super::markup::TurnMarkup;
use super::turn_end_texts::{ProbeTexts, TurnEnds, shared_start};
use crate::record::{Conversation, write_json};
use crate::template::chat::ChatTemplate;
use crate::template::trained::markup_trials::turn_forms::TurnForms;
use fastpack_template::json::{Json, Map};

/// The roles of the longest conversation that turns are learned from.
const TWO_EXCHANGES: [&str; 4] = ["user", "assistant", "user", "assistant"];

/// The turn markup of a template with a conversation's keyword arguments. Without such arguments it is
/// learned once and kept.
pub(crate) fn learned<'t>(
    template: &'t ChatTemplate,
    conversation: &Conversation,
) -> Option<Cow<'t, TurnMarkup>> {
    if conversation.template_kwargs.is_empty() {
        let turn = template.turn.get_or_init(|| learn(template, conversation));
        return turn.as_ref().map(Cow::Borrowed);
    }
    learn(template, conversation).map(Cow::Owned)
}

impl ChatTemplate {
    /// The forms of conversations for which the cheaper search for turns is tried.
    pub(crate) fn forms(&self) -> &TurnForms {
        self.forms.get_or_init(|| TurnForms::of(&self.source, openings(self)))
    }

    /// True if `word` is one of the generation prompt. Where that cannot be rendered, of the whole template.
    pub(crate) fn prompts_with(&self, word: &str) -> bool {
        let words = self.prompt_words.get_or_init(|| {
            let prompt = || {
                let conversation = empty_conversation();
                let probe = MarkupProbe::new(self, &conversation)?;
                let before = probe.render(&["user"], false)?;
                let prompted = probe.render(&["user"], true)?;
                Some(prompted.text[shared_length(&before.text, &prompted.text)..].to_owned())
            };
            let text = prompt().unwrap_or_else(|| self.source.clone());
            let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
            words.map(str::to_owned).collect()
        });
        words.contains(word)
    }
}

fn empty_conversation() -> Conversation {
    Conversation {
        messages: Vec::new(),
        tools: None,
        template_kwargs: Map::default(),
        weights: None,
        prompt: None,
        pictures: Vec::new(),
    }
}

/// The text of the generation prompt behind the header with which turns begin, such as `<think>`.
fn openings(template: &ChatTemplate) -> Vec<String> {
    let found = || {
        let conversation = empty_conversation();
        let probe = MarkupProbe::new(template, &conversation)?;
        let before = probe.render(&["user"], false)?;
        let prompted = probe.render(&["user"], true)?;
        let exchange = probe.render(&TWO_EXCHANGES[..2], false)?;
        let (shared, prompt) = prompted.text.split_at(shared_length(&before.text, &prompted.text));
        let length = shared_length(prompt, exchange.text.strip_prefix(shared)?);
        // Different texts may share their first characters by chance.
        let header = prompt[..length].rfind(['\n', '>', ']']).map_or(0, |at| at + 1);
        let rests = [&prompt[length..], &prompt[header..]].map(str::trim_start);
        let opens = length < prompt.len();
        Some(
            rests.into_iter().filter(|rest| opens && !rest.is_empty()).map(str::to_owned).collect(),
        )
    };
    found().unwrap_or_default()
}

/// Learns the turn markup of `template` with a conversation's keyword arguments.
fn learn(template: &ChatTemplate, conversation: &Conversation) -> Option<TurnMarkup> {
    let probe = MarkupProbe::new(template, conversation)?;
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
            // Different texts may share their first characters by chance. A header ends with a line or a
            // token.
            header = &header[..header.rfind(['\n', '>', ']']).map_or(0, |at| at + 1)];
        }
        if header.is_empty() {
            return None;
        }
        // A turn may lack the end of the prompt, such as the `<think>` line that a template forces. The rest
        // of the header has to tell the assistant's turns from others.
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
    probe: &MarkupProbe<'_>,
    headers: &[String],
    before: &ProbeRender,
    [one, two]: &[ProbeRender; 2],
) -> Option<TurnEnds> {
    let seen = ProbeTexts {
        middle: two.after(1, Some(2))?,
        last: [one.after(1, None)?, two.after(3, None)?],
        before_user: before.before(0)?,
    };
    TurnEnds::learn(&probe.template.context, headers, &seen)
}

/// Renders tiny conversations with the keyword arguments of a conversation.
struct MarkupProbe<'t> {
    template: &'t ChatTemplate,
    conversation: Conversation,
    marks: ContentMarks,
}

impl<'t> MarkupProbe<'t> {
    fn new(template: &'t ChatTemplate, conversation: &Conversation) -> Option<Self> {
        let conversation = Conversation { tools: None, ..conversation.clone() };
        // A mark must occur neither in the keyword arguments, which a template may print, nor in the
        // template's own text.
        let mut texts = [&template.context.kwargs, &conversation.template_kwargs].map(|kwargs| {
            let mut text = Vec::new();
            write_json(&Json::Map(kwargs.clone().into()), &mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let plain = template.run(&messages(&TWO_EXCHANGES), &conversation, Some(true));
        texts[0].extend(plain.ok().map(|output| output.text));
        let marks =
            ContentMarks::absent_from(texts.iter().map(String::as_str), TWO_EXCHANGES.len())?;
        Some(Self { template, conversation, marks })
    }

    /// Renders a conversation with these roles; `None` if the template fails.
    fn render(&self, roles: &[&str], prompt: bool) -> Option<ProbeRender> {
        let messages = messages(roles);
        let marked = self.marks.mark_all(&messages)?;
        let text = self.template.run(&marked, &self.conversation, Some(prompt)).ok()?.text;
        let (plain, places) = self.marks.unmark(&text);
        let extents = extents(&places, roles.len());
        Some(ProbeRender { text, plain, extents })
    }
}

/// A rendered tiny conversation: with marks, without them, and the extents of its messages.
struct ProbeRender {
    text: String,
    plain: String,
    extents: Vec<Option<MarkedRange>>,
}

impl ProbeRender {
    /// The text before the content of a message.
    fn before(&self, message: usize) -> Option<&str> {
        self.plain.get(..self.extents.get(message)?.as_ref()?.range.start)
    }

    /// The text after the content of a message, up to the content of `next`, or to the end.
    fn after(&self, message: usize, next: Option<usize>) -> Option<&str> {
        let from = self.extents.get(message)?.as_ref()?.range.end;
        let to = match next {
            Some(next) => self.extents.get(next)?.as_ref()?.range.start,
            None => self.plain.len(),
        };
        self.plain.get(from..to)
    }
}

/// Messages with these roles, each with one letter as content.
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

/// The header of the assistant's turns for a template without a generation prompt, and whether it belongs to
/// the turn itself.
///
/// The header is the text between the user's turn and the assistant's text. If that is blank, as after a
/// closing `[/INST]`, the header is the end of the user's turn.
fn unprompted_header(user: &ProbeRender, exchange: &ProbeRender) -> Option<(String, bool)> {
    let tail = user.after(0, None)?;
    let between = exchange.after(0, Some(1))?;
    // After the last turn, some templates close the whole conversation.
    let own = &between[shared_start(between, tail).len()..];
    Some(if own.trim().is_empty() {
        (tail.to_owned(), false)
    } else {
        // Without a prompt the model generates the blanks too.
        (own.trim_end().to_owned(), true)
    })
}

/// Length in bytes of the common prefix of two texts.
fn shared_length(left: &str, right: &str) -> usize {
    let differ = left.char_indices().zip(right.chars()).find(|((_, left), right)| left != right);
    differ.map_or(left.len().min(right.len()), |((at, _), _)| at)
}
