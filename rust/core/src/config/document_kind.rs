//! [`DocumentKind`]: the texts that documents are made of, and the shapes of records that have them.

use serde::{Deserialize, Serialize};

use super::inputs::ShapeName;

/// The texts that documents are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DocumentKind {
    /// One text or conversation, with its trained part.
    #[default]
    Texts,
    /// A prompt, a chosen and a rejected answer.
    Pairs,
    /// A prompt, an answer and a judgement of it.
    Judged,
    /// A prompt.
    Prompts,
    /// A text or a pair of texts, and its class.
    Labelled,
    /// A text or a pair of texts, and its classes.
    MultiLabelled,
    /// One text or conversation with its trained part, changed by a function of the caller.
    #[serde(rename = "made")]
    Converted,
}

impl DocumentKind {
    /// The name of documents of this kind, for a message.
    pub fn name(self) -> &'static str {
        match self {
            Self::Texts => "texts and conversations",
            Self::Pairs => "prompts with a chosen and a rejected answer",
            Self::Judged => "prompts with a judged answer",
            Self::Prompts => "prompts",
            Self::Labelled => "texts with a label",
            Self::MultiLabelled => "texts with labels",
            Self::Converted => "what a function made of texts and conversations",
        }
    }

    /// True if this is the usual kind, which manifests leave out.
    pub fn is_texts(&self) -> bool {
        *self == Self::Texts
    }

    /// True if documents have a class, or several.
    pub fn is_classified(self) -> bool {
        matches!(self, Self::Labelled | Self::MultiLabelled)
    }

    /// True if documents are made of one text or conversation, with its trained part.
    pub fn is_of_whole_texts(self) -> bool {
        matches!(self, Self::Texts | Self::Converted)
    }

    /// The shapes of records that such documents are made of, in the order in which they are tried.
    pub fn shapes(self) -> &'static [ShapeName] {
        match self {
            Self::Texts | Self::Converted => &[
                ShapeName::Tokens,
                ShapeName::Conversations,
                ShapeName::PromptCompletion,
                ShapeName::Instruction,
                ShapeName::QuestionAnswer,
                ShapeName::Text,
            ],
            Self::Pairs => &[ShapeName::Preference],
            Self::Judged => &[ShapeName::UnpairedPreference],
            Self::Labelled | Self::MultiLabelled => {
                &[ShapeName::LabelledPair, ShapeName::LabelledText]
            }
            Self::Prompts => &[
                ShapeName::Tokens,
                ShapeName::Conversations,
                ShapeName::Prompt,
                ShapeName::Instruction,
                ShapeName::QuestionAnswer,
                ShapeName::Text,
            ],
        }
    }
}
