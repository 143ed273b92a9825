//! The texts that a conversation becomes, by the choice of [`Turns`].

use std::borrow::Cow;

use fastpack_template::json::Map;

use crate::config::Turns;
use crate::record::{Conversation, Fault};
use crate::template::chat::ChatTemplate;
use crate::template::conversation::left_out::LeftOut;
use crate::template::conversation::{ends_in_a_run, is_assistant, prepared};

use super::rule;
use super::rule::stop_tokens::StopTokens;
use super::rule::turn_documents::{self, TrainedTurn};
use super::turn_markup::learn_markup::learned;
use super::turn_markup::markup::TurnMarkup;
use super::turn_markup::message_spans;
use super::turn_markup::message_spans::AssistantTurn;

/// A text in which trained turns stand, and those turns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnText {
    /// The text.
    pub text: String,
    /// The trained turns, ascending.
    pub turns: Vec<AssistantTurn>,
}

impl TurnText {
    /// The text up to and with its last turn, if it has one.
    pub(super) fn up_to_turn(&self) -> Option<&str> {
        self.turns.last().map(|turn| &self.text[..turn.span.end])
    }
}

/// The texts in which the trained turns of a conversation stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnTexts {
    /// The texts.
    pub texts: Vec<TurnText>,
    /// The one text of the whole conversation, to compare with.
    pub whole: WholeText,
}

/// The one text of a conversation whose turns stand in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WholeText {
    /// Its bytes.
    pub bytes: usize,
    /// The trained turns.
    pub turns: u64,
    /// The trained turns that it has otherwise than the model writes them, or behind another text.
    pub rewritten_turns: u64,
}

impl WholeText {
    /// The facts about `whole`, in which turns stand whose own texts are `turns`.
    pub(super) fn of<'t>(whole: &str, turns: impl Iterator<Item = &'t str>) -> Self {
        let mut facts = Self { bytes: whole.len(), ..Self::default() };
        for turn in turns {
            facts.turns += 1;
            facts.rewritten_turns += u64::from(!whole.starts_with(turn));
        }
        facts
    }
}

impl ChatTemplate {
    /// The texts in which the turns that `is_trained` stand as `choice` asks. `None` if there is one, the render of the
    /// whole conversation, and [`render_turns`](Self::render_turns) finds the turns in it. Adds the fields that the
    /// text leaves out to `left_out`.
    ///
    /// # Errors
    ///
    /// [`Reason::Template`](crate::report::ledger::Reason::Template) with the words of the template if it refuses to render
    /// the messages up to each of the turns.
    pub fn turn_texts(
        &self,
        conversation: &Conversation,
        choice: Turns,
        is_trained: &dyn Fn(usize) -> bool,
        left_out: Option<&mut LeftOut>,
    ) -> Result<Option<TurnTexts>, Fault> {
        let template = self.serving(conversation);
        template.check(conversation)?;
        let messages = prepared(conversation);
        if template.generates {
            if !template.needs_turns_alone(choice, conversation, &messages) {
                return Ok(None);
            }
            return template.texts_of_blocks(conversation, &messages, choice, is_trained, left_out);
        }
        if choice == Turns::Whole || !template.needs_rule(choice, conversation, &messages) {
            return Ok(None);
        }
        let whole = template.run_whole(&messages, conversation, left_out)?.text;
        let turns = rule::trained(template, conversation, &messages, is_trained)?;
        let learned = learned(template, conversation);
        Ok(Some(template.texts_of(
            &turns,
            choice,
            &whole,
            &StopTokens::of(template, conversation),
            learned.as_deref(),
        )))
    }

    /// True if the turns of a conversation are searched one by one, because the cheaper search cannot find the turns of
    /// `choice`.
    pub(in crate::template) fn needs_rule(
        &self,
        choice: Turns,
        conversation: &Conversation,
        messages: &[Cow<'_, Map>],
    ) -> bool {
        // Asked first: trials of the search are dear.
        if self.generates || !messages.iter().any(|message| is_assistant(message)) {
            return false;
        }
        match choice {
            Turns::Each => true,
            Turns::Last if ends_in_a_run(messages) => true,
            Turns::Auto | Turns::Last | Turns::Whole => !self.trusts_marks(conversation, messages),
        }
    }

    /// The texts in which turns stand, as `choice` asks; `whole`, the render of all messages, if there is no turn.
    pub(in crate::template) fn texts_of(
        &self,
        turns: &[TrainedTurn],
        choice: Turns,
        whole: &str,
        stops: &StopTokens,
        learned: Option<&TurnMarkup>,
    ) -> TurnTexts {
        let documents = if choice == Turns::Each {
            turn_documents::each(turns, whole, stops)
        } else {
            turn_documents::merged(turns, whole, stops)
        };
        let texts = documents.into_iter().map(|document| {
            let turns = message_spans::turns(self, learned, &document.text, document.turns);
            TurnText { text: document.text, turns }
        });
        let mut texts: Vec<TurnText> = texts.collect();
        if texts.is_empty() {
            texts.push(TurnText { text: whole.to_owned(), turns: Vec::new() });
        }
        // One text needs no other to be compared with.
        let own = if texts.len() > 1 { turns } else { &[] };
        let own = own.iter().filter(|turn| turn.is_generated()).map(TrainedTurn::text);
        TurnTexts { texts, whole: WholeText::of(whole, own) }
    }
}
