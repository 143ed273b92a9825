//! [`Part`]: the parts of records, and the shapes that have them.

use super::shape_name::ShapeName;
use crate::config::option_words::option_words;

option_words! {
    /// A part of a record.
    #[non_exhaustive]
    pub enum Part {
        /// The list of messages.
        Messages = "messages",
        /// The tools that a conversation may use.
        Tools = "tools",
        /// The system text before a conversation or a request.
        System = "system",
        /// The prompt.
        Prompt = "prompt",
        /// The completion of the prompt.
        Completion = "completion",
        /// The instruction.
        Instruction = "instruction",
        /// The input of the instruction.
        Input = "input",
        /// The output of the instruction.
        Output = "output",
        /// The question.
        Question = "question",
        /// The answer to the question.
        Answer = "answer",
        /// Plain text.
        Text = "text",
        /// Ids.
        InputIds = "input_ids",
        /// Ids where trained, -100 elsewhere.
        Labels = "labels",
        /// Zeros where there is padding.
        AttentionMask = "attention_mask",
        /// Ones where trained.
        AssistantMasks = "assistant_masks",
        /// The factor of each id's loss.
        LossWeights = "loss_weights",
        /// The turns before an instruction or a question.
        History = "history",
        /// Ones where trained: an entry for each message, or for each id.
        LossMask = "loss_mask",
        /// The pictures of a conversation.
        Images = "images",
        /// The answer that is preferred.
        Chosen = "chosen",
        /// The answer that is not preferred.
        Rejected = "rejected",
        /// The judgement of an answer, or the class or classes of a text.
        Label = "label",
        /// The first text of a pair.
        Sentence1 = "sentence1",
        /// The second text of a pair.
        Sentence2 = "sentence2",
    }
}

impl Part {
    /// True if this part belongs to no shape of its own: records of any may have it.
    pub(super) fn is_general(self) -> bool {
        ShapeName::WORDS.iter().all(|(_, shape)| !self.is_of(*shape))
    }

    /// True if this part belongs to records of this shape alone.
    pub(super) fn is_of(self, shape: ShapeName) -> bool {
        match self {
            Self::Messages => shape == ShapeName::Conversations,
            Self::Prompt => matches!(
                shape,
                ShapeName::PromptCompletion
                    | ShapeName::Preference
                    | ShapeName::UnpairedPreference
                    | ShapeName::Prompt
            ),
            Self::Completion => {
                matches!(shape, ShapeName::PromptCompletion | ShapeName::UnpairedPreference)
            }
            Self::Instruction | Self::Input | Self::Output => shape == ShapeName::Instruction,
            Self::Question | Self::Answer => shape == ShapeName::QuestionAnswer,
            Self::Text => matches!(shape, ShapeName::Text | ShapeName::LabelledText),
            Self::Labels => matches!(
                shape,
                ShapeName::Tokens | ShapeName::LabelledText | ShapeName::LabelledPair
            ),
            Self::InputIds | Self::AttentionMask | Self::AssistantMasks | Self::LossWeights => {
                shape == ShapeName::Tokens
            }
            Self::Chosen | Self::Rejected => shape == ShapeName::Preference,
            Self::Label => matches!(
                shape,
                ShapeName::UnpairedPreference | ShapeName::LabelledText | ShapeName::LabelledPair
            ),
            Self::Sentence1 | Self::Sentence2 => shape == ShapeName::LabelledPair,
            Self::Tools | Self::System | Self::History | Self::LossMask | Self::Images => false,
        }
    }

    /// The first of these shapes that has this part; `None` for a part of any shape.
    pub(super) fn shape(self, shapes: &[ShapeName]) -> Option<ShapeName> {
        shapes.iter().copied().find(|&shape| self.is_of(shape))
    }
}
