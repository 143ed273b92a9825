//! The names of prompt formats in reports.

use crate::config::{ContentForm, Prompt, Reading};
use crate::pipeline::job::{Job, JobTemplate};
use crate::record::FoundShape;

/// The name of the chat template in a report.
pub(crate) const CHAT_TEMPLATE: &str = "chat_template";

/// The prompt format of the records of a shape, as the report names it; `None` if a prompt format changes nothing.
pub(crate) fn prompt_name(
    job: &Job,
    reading: &Reading,
    found: &FoundShape,
) -> Option<&'static str> {
    if found.shape.is_of_messages() {
        return Some(CHAT_TEMPLATE);
    }
    let entry = found.shape.entry();
    if entry.form != ContentForm::PromptFormat {
        return None;
    }
    // Prompts that are texts continue in their completions.
    let joins = entry.text_or_messages.is_some();
    Some(match (&reading.prompt, &job.template) {
        (Some(Prompt::Chatml), _) => "chatml",
        (Some(Prompt::Vicuna), _) => "vicuna",
        (Some(Prompt::Math(name)), _) => name.name(),
        (Some(Prompt::Parts(_)), _) => "parts",
        (Some(Prompt::Format(_)), _) => "format",
        (None, _) if joins => "joining",
        (None, JobTemplate::Ready(_)) => CHAT_TEMPLATE,
        (Some(Prompt::Alpaca), _) | (None, JobTemplate::Refused(_)) => "alpaca",
    })
}

/// The name of records that never use a prompt.
pub(crate) fn unprompted_kind(found: &FoundShape) -> Option<&'static str> {
    match found.shape.entry().form {
        ContentForm::ChatTemplate => Some("conversations, which the chat template renders"),
        ContentForm::PromptFormat if found.shape.has_messages() => {
            Some("prompts and completions that are messages, which the chat template renders")
        }
        ContentForm::PromptFormat => None,
        ContentForm::Prompts => Some("prompts that records bring"),
        ContentForm::Texts => Some("texts"),
        ContentForm::Ids => Some("ids"),
    }
}
