//! Renders a prompt, and the prompt with each of its answers.

use std::sync::Arc;

use fastpack_template::json::Map;

use crate::document::bos_and_eos::TextKind;
use crate::record::{Conversation, Fault};
use crate::report::ledger::Reason;
use crate::template::{ChatTemplate, joined_messages};

/// The text of a prompt, and of the prompt with each of its answers. If the template refuses lists of texts in any of
/// them, those of all are joined, which is returned too.
pub(crate) fn render_answers(
    template: &ChatTemplate,
    mut prompt: Conversation,
    mut answers: Vec<Vec<Arc<Map>>>,
) -> Result<(Vec<(String, TextKind)>, bool), Fault> {
    let refused = match texts_of(template, &prompt, &answers) {
        Ok(texts) => return Ok((texts, false)),
        Err(fault) => fault,
    };
    let mut has_joined = false;
    for messages in std::iter::once(&mut prompt.messages).chain(&mut answers) {
        if let Some(joined) = joined_messages(messages) {
            *messages = joined;
            has_joined = true;
        }
    }
    if refused.reason != Reason::Template || !has_joined {
        return Err(refused);
    }
    Ok((texts_of(template, &prompt, &answers)?, true))
}

fn texts_of(
    template: &ChatTemplate,
    prompt: &Conversation,
    answers: &[Vec<Arc<Map>>],
) -> Result<Vec<(String, TextKind)>, Fault> {
    let prompt_text = template.render_prompt(prompt);
    let prompt_text = prompt_text.map_err(|fault| template.explained(fault, prompt))?;
    let mut texts = vec![(prompt_text, TextKind::Conversation)];
    let mut whole = prompt.clone();
    for answer in answers {
        whole.messages.truncate(prompt.messages.len());
        whole.messages.extend(answer.iter().cloned());
        let text = template.render(&whole).map_err(|fault| template.explained(fault, &whole))?;
        texts.push((text, TextKind::Conversation));
    }
    Ok(texts)
}
