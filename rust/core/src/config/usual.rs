//! Where the parts of records stand, if nothing else is said: the first of these fields that a record has.

use super::ShapeName;

/// A list of messages.
pub(crate) const MESSAGES: [&str; 3] = ["messages", "conversation", "conversations"];
/// What is completed.
pub(crate) const PROMPT: [&str; 1] = ["prompt"];
/// What completes it.
pub(crate) const COMPLETION: [&str; 1] = ["completion"];
/// An instruction.
pub(crate) const INSTRUCTION: [&str; 1] = ["instruction"];
/// What an instruction is about.
pub(crate) const INPUT: [&str; 2] = ["input", "context"];
/// What follows an instruction.
pub(crate) const OUTPUT: [&str; 2] = ["output", "response"];
/// A question.
pub(crate) const QUESTION: [&str; 4] = ["question", "query", "problem", "prompt"];
/// What answers it.
pub(crate) const ANSWER: [&str; 4] = ["answer", "response", "solution", "output"];
/// A text.
pub(crate) const TEXT: [&str; 1] = ["text"];

/// Where the tools stand, if nothing else is said.
pub(crate) const TOOLS: &str = "tools";
/// Where a text before the conversation stands, if nothing else is said.
pub(crate) const SYSTEMS: [&str; 2] = ["system", "system_prompt"];
/// Where a record's own arguments to the template stand; the name is TRL's.
pub(crate) const TEMPLATE_KWARGS: &str = "chat_template_kwargs";
/// Where the padding is marked with zeros, if nothing else is said.
pub(crate) const ATTENTION_MASK: &str = "attention_mask";
/// Where trained tokens are marked with ones, if nothing else is said.
pub(crate) const MASKS: [&str; 2] = ["assistant_masks", "completion_mask"];

impl ShapeName {
    /// All shapes, in the order in which they are looked for.
    pub const ALL: [Self; 6] = [
        Self::Tokens,
        Self::Conversations,
        Self::PromptCompletion,
        Self::Instruction,
        Self::QuestionAnswer,
        Self::Text,
    ];

    /// The fields of the parts that a shape of texts or messages cannot do without; none for ids, whose columns have names
    /// of their own.
    pub fn required(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Conversations => &[&MESSAGES],
            Self::PromptCompletion => &[&PROMPT, &COMPLETION],
            Self::Instruction => &[&INSTRUCTION, &OUTPUT],
            Self::QuestionAnswer => &[&QUESTION, &ANSWER],
            Self::Text => &[&TEXT],
            Self::Tokens => &[],
        }
    }
}
