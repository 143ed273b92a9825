//! The usual field names of the parts of records (the first one in a record is read), and names of roles.

use crate::config::RowColumn;

/// A list of messages.
pub(crate) const MESSAGES: [&str; 3] = ["messages", "conversation", "conversations"];
/// A prompt.
pub(crate) const PROMPT: [&str; 1] = ["prompt"];
/// The completion of a prompt.
pub(crate) const COMPLETION: [&str; 1] = ["completion"];
/// An instruction.
pub(crate) const INSTRUCTION: [&str; 1] = ["instruction"];
/// The input of an instruction.
pub(crate) const INPUT: [&str; 2] = ["input", "context"];
/// The output of an instruction.
pub(crate) const OUTPUT: [&str; 2] = ["output", "response"];
/// A question.
pub(crate) const QUESTION: [&str; 4] = ["question", "query", "problem", "prompt"];
/// The answer to a question.
pub(crate) const ANSWER: [&str; 4] = ["answer", "response", "solution", "output"];
/// A text.
pub(crate) const TEXT: [&str; 2] = ["text", "sentence"];
/// The answer that is preferred.
pub(crate) const CHOSEN: [&str; 1] = ["chosen"];
/// The answer that is not preferred.
pub(crate) const REJECTED: [&str; 1] = ["rejected"];
/// The judgement of an answer.
pub(crate) const LABEL: [&str; 1] = ["label"];
/// The label or labels of a text.
pub(crate) const LABELS: [&str; 2] = ["label", "labels"];
/// The first text of a pair.
pub(crate) const SENTENCE1: [&str; 3] = ["sentence1", "premise", "question1"];
/// The second text of a pair.
pub(crate) const SENTENCE2: [&str; 3] = ["sentence2", "hypothesis", "question2"];

/// Ids.
pub(crate) const INPUT_IDS: [&str; 1] = [RowColumn::InputIds.name()];
/// Ids where trained, -100 elsewhere.
pub(crate) const TOKEN_LABELS: [&str; 1] = [RowColumn::Labels.name()];
/// The factor of each id's loss.
pub(crate) const LOSS_WEIGHTS: [&str; 1] = [RowColumn::LossWeights.name()];
/// The attention mask, with zeros for padding.
pub(crate) const ATTENTION_MASK: [&str; 1] = ["attention_mask"];
/// The tools.
pub(crate) const TOOLS: [&str; 1] = ["tools"];
/// The fields of the system text.
pub(crate) const SYSTEMS: [&str; 2] = ["system", "system_prompt"];
/// The field of a record's own arguments to the template. The name is TRL's.
pub(crate) const TEMPLATE_KWARGS: &str = "chat_template_kwargs";
/// The roles of the assistant.
pub(crate) const ASSISTANT: [&str; 2] = ["assistant", "model"];
/// The turns before a request.
pub(crate) const HISTORY: [&str; 1] = ["history"];
/// The loss mask of a record: one entry for each message or id.
pub(crate) const LOSS_MASK: [&str; 1] = ["loss_mask"];
/// The fields of masks with ones for trained tokens.
pub(crate) const MASKS: [&str; 2] = ["assistant_masks", "completion_mask"];

/// Text fields that no shape reads.
const OTHER_TEXT_FIELDS: [&str; 10] = [
    "choices",
    "options",
    "documents",
    "passage",
    "hint",
    "explanation",
    "rationale",
    "reasoning",
    "reasoning_content",
    "thinking",
];

/// The names of text fields, of shapes of messages, requests and texts and of others.
pub(crate) fn text_fields() -> impl Iterator<Item = &'static str> {
    let requests = PROMPT.iter().chain(&INSTRUCTION).chain(&INPUT).chain(&QUESTION);
    let answers = COMPLETION.iter().chain(&OUTPUT).chain(&ANSWER);
    let others =
        MESSAGES.iter().chain(&TEXT).chain(&SYSTEMS).chain(&HISTORY).chain(&OTHER_TEXT_FIELDS);
    requests.chain(answers).chain(others).chain(&TOOLS).copied()
}

/// Tells the fields of answers from other fields, by name.
pub(crate) fn is_answer(field: &str) -> bool {
    [&COMPLETION[..], &OUTPUT, &ANSWER].iter().any(|names| names.contains(&field))
}
