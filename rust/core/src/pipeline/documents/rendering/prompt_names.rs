//! The names of prompt formats in reports.

use crate::config::{Prompt, Reading, ShapeName};
use crate::pipeline::job::{Job, JobTemplate};
use crate::record::FoundShape;

/// The name of the chat template in a report.
pub(crate) const CHAT_TEMPLATE: &str = "chat_template";

/// The prompt format of the records of a shape, as the report names it.
pub(crate) fn prompt_name(
    job: &Job,
    reading: &Reading,
    found: &FoundShape,
) -> Option<&'static str> {
    let pair = match found.shape.name() {
        ShapeName::Conversations => return Some(CHAT_TEMPLATE),
        ShapeName::PromptCompletion
        | ShapeName::Preference
        | ShapeName::UnpairedPreference
        | ShapeName::Prompt
            if found.shape.has_messages() =>
        {
            return Some(CHAT_TEMPLATE);
        }
        ShapeName::PromptCompletion => None,
        ShapeName::Instruction | ShapeName::QuestionAnswer => Some(&job.template),
        ShapeName::Preference
        | ShapeName::UnpairedPreference
        | ShapeName::Prompt
        | ShapeName::Text
        | ShapeName::LabelledText
        | ShapeName::LabelledPair
        | ShapeName::Tokens => return None,
    };
    Some(match (&reading.prompt, pair) {
        (Some(Prompt::Alpaca), _) | (None, Some(JobTemplate::Refused(_))) => "alpaca",
        (Some(Prompt::Chatml), _) => "chatml",
        (Some(Prompt::Vicuna), _) => "vicuna",
        (Some(Prompt::Math(name)), _) => name.name(),
        (Some(Prompt::Parts(_)), _) => "parts",
        (Some(Prompt::Format(_)), _) => "format",
        (None, Some(JobTemplate::Ready(_))) => CHAT_TEMPLATE,
        (None, None) => "joining",
    })
}

/// The name of records that never use a prompt.
pub(crate) fn unprompted_kind(found: &FoundShape) -> Option<&'static str> {
    match found.shape.name() {
        ShapeName::Conversations => Some("conversations, which the chat template renders"),
        ShapeName::PromptCompletion if found.shape.has_messages() => {
            Some("prompts and completions that are messages, which the chat template renders")
        }
        ShapeName::Text | ShapeName::LabelledText | ShapeName::LabelledPair => Some("texts"),
        ShapeName::Tokens => Some("ids"),
        ShapeName::Preference | ShapeName::UnpairedPreference | ShapeName::Prompt => {
            Some("prompts that records bring")
        }
        ShapeName::PromptCompletion | ShapeName::Instruction | ShapeName::QuestionAnswer => None,
    }
}
