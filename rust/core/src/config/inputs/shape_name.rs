//! [`ShapeName`]: the shapes that records may have.

use crate::config::option_words::option_words;

option_words! {
    /// The shape of the records of a file.
    #[non_exhaustive]
    pub enum ShapeName {
        /// Lists of messages.
        Conversations = "conversations",
        /// A prompt and its completion, as texts or as lists of messages.
        PromptCompletion = "prompt_completion",
        /// An instruction, its input if any, and the output.
        Instruction = "instruction",
        /// A question and its answer.
        QuestionAnswer = "question_answer",
        /// Texts.
        Text = "text",
        /// Ids.
        Tokens = "tokens",
        /// A chosen and a rejected answer, and their prompt unless both begin with it.
        Preference = "preference",
        /// A prompt, its completion and whether that is a good one.
        UnpairedPreference = "unpaired_preference",
        /// A prompt.
        Prompt = "prompt",
        /// A text and its label or labels.
        LabelledText = "labelled_text",
        /// Two texts and the label or labels of both together.
        LabelledPair = "labelled_pair",
    }
}
