//! Finds the completion of a prompt, and the assistant's last turn.

use std::ops::Range;

use fastpack_template::RenderOutput;

use crate::record::{Conversation, Fault};
use crate::report::ledger::Reason;
use crate::template::chat::ChatTemplate;
use crate::template::conversation::left_out::LeftOut;
use crate::template::conversation::{is_assistant, last_turn, prepared};
use crate::template::trained::turn_markup::message_spans::looped;

impl ChatTemplate {
    /// Renders a conversation, and finds the completion of its first `prompt` messages.
    ///
    /// The completion is the text after those messages and the generation prompt, as in TRL. Adds the fields
    /// that the text leaves out to `left_out`.
    pub fn render_completion(
        &self,
        conversation: &Conversation,
        prompt: usize,
        left_out: Option<&mut LeftOut>,
    ) -> Result<(String, Range<usize>), Fault> {
        let template = self.serving(conversation);
        template.check(conversation)?;
        let messages = prepared(conversation);
        let text = template.run_whole(&messages, conversation, left_out)?.text;
        let prompt_output = template.run(&messages[..prompt], conversation, Some(true));
        if let Ok(prompt_output) = prompt_output
            && text.starts_with(&prompt_output.text)
        {
            let completion = prompt_output.text.len()..text.len();
            return Ok((text, completion));
        }
        // A generation prompt may hold more than the turn that was written, such as a forced thought.
        let (text, spans) = self.render_with_spans(conversation)?;
        match spans.last() {
            Some(last) if messages.len() == prompt + 1 => {
                let completion = last.start..text.len();
                Ok((text, completion))
            }
            _ => Err(self.hidden("completes the prompt")),
        }
    }

    /// Renders a conversation, and finds the spans of the assistant's last turn. Adds the fields that the text
    /// leaves out to `left_out`.
    pub fn render_last_turn(
        &self,
        conversation: &Conversation,
        left_out: Option<&mut LeftOut>,
    ) -> Result<(String, Vec<Range<usize>>), Fault> {
        let template = self.serving(conversation);
        let RenderOutput { text, spans, span_objects, .. } =
            self.render_marked_noting(conversation, left_out)?;
        let messages = prepared(conversation);
        let turns = messages.iter().filter(|message| is_assistant(message)).count();
        let Some(last) = last_turn(&messages) else {
            return Ok((text, Vec::new()));
        };
        if let Some(owners) = looped(&span_objects, |at| is_assistant(&messages[at])) {
            return Ok((text, spans_of(last, spans, &owners)));
        }
        let before = match last {
            0 => Some(0),
            _ => template
                .run(&messages[..last], conversation, Some(false))
                .ok()
                .filter(|before| text.starts_with(&before.text))
                .map(|before| before.text.len()),
        };
        let spans = last_spans(spans, before, turns);
        spans.map(|spans| (text, spans)).ok_or_else(|| self.hidden("the assistant wrote last"))
    }

    /// The fault of a message whose parts cannot be told apart.
    pub(in crate::template) fn mixed(&self, at: usize) -> Fault {
        let message = format!(
            "chat template `{}` does not show what is reasoning, calls and answer in message {at}; \
             train_on=\"assistant\" trains all of it",
            self.name
        );
        Fault::new(Reason::Unmaskable, message)
    }

    pub(in crate::template) fn hidden(&self, what: &str) -> Fault {
        let message = format!(
            "chat template `{}` renders this conversation in a way that does not show what {what}; use \
             train_on=\"all\"",
            self.name
        );
        Fault::new(Reason::Unmaskable, message)
    }
}

/// The spans of a message, of spans that are given with their messages.
pub(in crate::template) fn spans_of(
    message: usize,
    spans: Vec<Range<usize>>,
    owners: &[usize],
) -> Vec<Range<usize>> {
    let owned = spans.into_iter().zip(owners);
    owned.filter(|(_, owner)| **owner == message).map(|(span, _)| span).collect()
}

/// The spans inside the last turn. `before` is the length of the text before that turn, if it is known, and
/// `turns` the number of turns. `None` if the last turn cannot be found.
pub(in crate::template) fn last_spans(
    mut spans: Vec<Range<usize>>,
    before: Option<usize>,
    turns: usize,
) -> Option<Vec<Range<usize>>> {
    match before {
        Some(before) => spans.retain(|span| span.end > before),
        None if spans.len() == turns => drop(spans.drain(..turns - 1)),
        None => return None,
    }
    Some(spans)
}
