//! The spans of templates with `{% generation %}` blocks, which decide what is trained; of other templates they are derived.
//!
//! The blocks in the render of all messages are right where the template keeps earlier turns. Where it does not, each turn is
//! rendered behind the messages before it.

use std::borrow::Cow;
use std::ops::Range;

use fastpack_template::RenderOutput;
use fastpack_template::json::Map;

use super::markup_trials::form_sample::TrainedPlace;
use super::markup_trials::trial::MarksFound;
use super::rule::without_calls;
use super::stand_in_words::WordReplacer;
use super::turn_markup::spans_by_markup::derived;
use super::turn_texts::{TurnText, TurnTexts, WholeText};
use crate::config::Turns;
use crate::record::{Conversation, Fault};
use crate::report::ledger::Reason;
use crate::template::chat::ChatTemplate;
use crate::template::conversation::left_out::LeftOut;
use crate::template::conversation::{is_assistant, prepared};

/// The most bytes of the texts of all turns of a conversation: of some thousand turns, each of which stands behind all before it.
const MOST_TEXT: usize = 1 << 28;

impl ChatTemplate {
    /// Renders a conversation, and finds the spans that the assistant wrote.
    ///
    /// Fails with [`Reason::Unmaskable`] if a template without
    /// `{% generation %}` blocks renders a record in a way that does not show the spans.
    pub fn render_with_spans(
        &self,
        conversation: &Conversation,
    ) -> std::result::Result<(String, Vec<Range<usize>>), Fault> {
        self.render_spans_with_notes(conversation, None)
    }

    /// Renders a conversation, finds the spans that the assistant wrote, and adds the fields that the text
    /// leaves out.
    pub(crate) fn render_spans_with_notes(
        &self,
        conversation: &Conversation,
        left_out: Option<&mut LeftOut>,
    ) -> std::result::Result<(String, Vec<Range<usize>>), Fault> {
        let output = self.render_marked_noting(conversation, left_out)?;
        Ok((output.text, output.spans))
    }

    /// Renders a conversation as [`render_spans_with_notes`](Self::render_spans_with_notes) does. The message of each span is
    /// known if the template marks its turns in a loop over messages.
    pub(in crate::template) fn render_marked_noting(
        &self,
        conversation: &Conversation,
        left_out: Option<&mut LeftOut>,
    ) -> std::result::Result<RenderOutput, Fault> {
        let template = self.serving(conversation);
        template.check(conversation)?;
        let messages = prepared(conversation);
        let mut output = template.run_whole(&messages, conversation, left_out)?;
        // The template's own marks decide, where it has some.
        if !template.generates {
            output.spans = derived(template, conversation, &messages, &output.text)?;
        }
        Ok(output)
    }
}

impl ChatTemplate {
    /// True if `choice` needs turns rendered alone, each behind the messages before it: it asks for that, the render of all messages
    /// changes an earlier turn, or a turn lacks its calls. Tried for each form of conversation.
    pub(in crate::template) fn needs_turns_alone(
        &self,
        choice: Turns,
        conversation: &Conversation,
        messages: &[Cow<'_, Map>],
    ) -> bool {
        match choice {
            Turns::Each => true,
            Turns::Whole => false,
            Turns::Auto => !self.blocks_stay(conversation, messages),
            Turns::Last => messages
                .iter()
                .rposition(|message| is_assistant(message))
                .is_some_and(|last| self.hides_calls(conversation, messages, last)),
        }
    }

    /// True if each turn is in the render of all messages what it is alone, with its calls.
    fn blocks_stay(&self, conversation: &Conversation, messages: &[Cow<'_, Map>]) -> bool {
        let sample = self.form_sample(conversation, messages, |_| TrainedPlace::Context);
        if let Some(known) = self.known_trust(&sample) {
            return known;
        }
        let words = WordReplacer::new(self.forms(), true);
        let (replaced, _) = words.replace(&sample.conversation.messages);
        let replaced = Conversation { messages: replaced, ..sample.conversation.clone() };
        // A conversation that the template refuses is refused where it is rendered.
        let found = self.blocks_agree(&replaced).unwrap_or(MarksFound::All);
        self.keep_trust(sample, &found)
    }

    /// The turns that are in the render of all messages what they are alone; `None` if the template refuses one of them.
    fn blocks_agree(&self, conversation: &Conversation) -> Option<MarksFound> {
        let messages: Vec<Cow<'_, Map>> =
            conversation.messages.iter().map(|message| Cow::Borrowed(&**message)).collect();
        let (whole, turns) = self.render_turns(conversation, None).ok()?;
        for at in (0..messages.len()).filter(|at| is_assistant(&messages[*at])) {
            let missed = Some(MarksFound::AllBut(vec![at]));
            if self.hides_calls(conversation, &messages, at) {
                return missed;
            }
            let alone = self.turn_alone(conversation, at).ok()?;
            let own = turns.iter().filter(|turn| turn.message == at).map(|turn| &turn.span);
            let Some(end) = own.clone().next_back().map(|span| span.end) else {
                if !alone.turns.is_empty() {
                    return missed;
                }
                continue;
            };
            // A template may print more behind the last turn alone.
            let starts_alike = whole.get(..end) == alone.text.get(..end)
                && own.eq(alone.turns.iter().map(|turn| &turn.span).take_while(|it| it.end <= end));
            if !starts_alike {
                return missed;
            }
        }
        Some(MarksFound::All)
    }

    /// The texts of the turns that `is_trained`; `None` if there is one, the render of all messages. Adds the fields that the latter
    /// leaves out to `left_out`.
    pub(super) fn texts_of_blocks(
        &self,
        conversation: &Conversation,
        messages: &[Cow<'_, Map>],
        choice: Turns,
        is_trained: &dyn Fn(usize) -> bool,
        left_out: Option<&mut LeftOut>,
    ) -> Result<Option<TurnTexts>, Fault> {
        let turns = self.shown_turns(conversation, messages, is_trained);
        if choice == Turns::Last && !turns.is_empty() {
            return Ok(None);
        }
        let (mut texts, mut bytes) = (Vec::with_capacity(turns.len()), 0);
        for at in turns {
            let alone = self.turn_alone(conversation, at)?;
            bytes += alone.text.len();
            if bytes > MOST_TEXT {
                let message = format!(
                    "chat template `{}` changes earlier turns of this conversation, whose turns would take more than {} MiB, each \
                     behind all before it; use turns=\"whole\" or \"last\"",
                    self.name,
                    MOST_TEXT >> 20
                );
                return Err(Fault::new(Reason::Unmaskable, message));
            }
            texts.push(alone);
        }
        let whole = self.run_whole(messages, conversation, left_out)?.text;
        Ok(Some(TurnTexts::of_turns_alone(texts, &whole, choice)))
    }

    /// The messages of the assistant that are trained and do not lack their calls.
    pub(in crate::template) fn shown_turns(
        &self,
        conversation: &Conversation,
        messages: &[Cow<'_, Map>],
        is_trained: &dyn Fn(usize) -> bool,
    ) -> Vec<usize> {
        let is_shown = |at: &usize| {
            is_assistant(&messages[*at])
                && is_trained(*at)
                && !self.hides_calls(conversation, messages, *at)
        };
        (0..messages.len()).filter(is_shown).collect()
    }

    /// The text up to the turn at message `at` of a conversation, with that turn.
    pub(in crate::template) fn turn_alone(
        &self,
        conversation: &Conversation,
        at: usize,
    ) -> Result<TurnText, Fault> {
        let messages = conversation.messages[..=at].to_vec();
        let before = Conversation { messages, weights: None, ..conversation.clone() };
        let (text, mut turns) = self.render_turns(&before, None)?;
        turns.retain(|turn| turn.message == at);
        Ok(TurnText { text, turns })
    }

    /// True if the text of a turn is the same without its calls.
    pub(super) fn hides_calls(
        &self,
        conversation: &Conversation,
        messages: &[Cow<'_, Map>],
        at: usize,
    ) -> bool {
        let Some(silent) = without_calls(&messages[at]) else { return false };
        let mut messages = messages[..=at].to_vec();
        let render =
            |messages: &[Cow<'_, Map>]| Some(self.run(messages, conversation, None).ok()?.text);
        let Some(with) = render(&messages) else { return false };
        messages[at] = Cow::Owned(silent);
        render(&messages) == Some(with)
    }
}

impl TurnTexts {
    /// The texts that `choice` makes of those of turns rendered alone; `whole` if there is none.
    pub(in crate::template) fn of_turns_alone(
        mut texts: Vec<TurnText>,
        whole: &str,
        choice: Turns,
    ) -> Self {
        texts.retain(|text| !text.turns.is_empty());
        let facts = WholeText::of(whole, texts.iter().filter_map(TurnText::up_to_turn));
        if choice == Turns::Auto {
            texts = fewest(texts, whole);
        }
        if texts.is_empty() {
            texts.push(TurnText { text: whole.to_owned(), turns: Vec::new() });
        }
        Self { texts, whole: facts }
    }
}

/// The texts that no other text continues, with the turns of those that they continue. The last is `whole` if that continues it.
fn fewest(texts: Vec<TurnText>, whole: &str) -> Vec<TurnText> {
    let mut kept: Vec<TurnText> = Vec::new();
    for mut text in texts {
        let is_begun = |before: &TurnText| {
            before.up_to_turn().is_some_and(|before| text.text.starts_with(before))
        };
        if let Some(at) = kept.iter().rposition(is_begun) {
            let mut turns = kept.remove(at).turns;
            turns.append(&mut text.turns);
            text.turns = turns;
        }
        kept.push(text);
    }
    if let Some(last) = kept.last_mut()
        && last.up_to_turn().is_some_and(|text| whole.starts_with(text))
    {
        whole.clone_into(&mut last.text);
    }
    kept
}
