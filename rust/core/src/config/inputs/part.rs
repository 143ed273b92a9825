//! [`Part`]: the parts of records.

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
