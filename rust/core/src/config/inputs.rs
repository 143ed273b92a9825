//! What is read: sources, and how the records of each are looked at.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::words::option_words;
use crate::error::{Error, Result};

option_words! {
    /// What the records of a file are.
    #[non_exhaustive]
    pub enum ShapeName {
        /// Lists of messages.
        Conversations = "conversations",
        /// A prompt and its completion, as texts or as lists of messages.
        PromptCompletion = "prompt_completion",
        /// An instruction, what it is about, and the output.
        Instruction = "instruction",
        /// A question and its answer.
        QuestionAnswer = "question_answer",
        /// Texts.
        Text = "text",
        /// Ids.
        Tokens = "tokens",
    }
}

option_words! {
    /// A part of a record.
    #[non_exhaustive]
    pub enum Part {
        /// The list of messages.
        Messages = "messages",
        /// The tools that a conversation may use.
        Tools = "tools",
        /// What is said before a conversation or a request.
        System = "system",
        /// What is completed.
        Prompt = "prompt",
        /// What completes it.
        Completion = "completion",
        /// What is to be done.
        Instruction = "instruction",
        /// What it is to be done with.
        Input = "input",
        /// What came of it.
        Output = "output",
        /// What is asked.
        Question = "question",
        /// What is answered.
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
        /// What the loss of each id is multiplied by.
        LossWeights = "loss_weights",
    }
}

impl Part {
    /// The shape that has this part; nothing for a part that several have.
    fn shape(self) -> Option<ShapeName> {
        match self {
            Self::Messages => Some(ShapeName::Conversations),
            Self::Prompt | Self::Completion => Some(ShapeName::PromptCompletion),
            Self::Instruction | Self::Input | Self::Output => Some(ShapeName::Instruction),
            Self::Question | Self::Answer => Some(ShapeName::QuestionAnswer),
            Self::Text => Some(ShapeName::Text),
            Self::InputIds
            | Self::Labels
            | Self::AttentionMask
            | Self::AssistantMasks
            | Self::LossWeights => Some(ShapeName::Tokens),
            Self::Tools | Self::System => None,
        }
    }
}

/// Under which names a record holds its parts, where looking for the usual ones is not wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fields(pub BTreeMap<Part, String>);

impl Fields {
    /// The field of a part, if it is named.
    pub fn get(&self, part: Part) -> Option<&str> {
        self.0.get(&part).map(String::as_str)
    }

    /// The shape whose parts are named.
    pub fn shape(&self) -> Option<ShapeName> {
        self.0.keys().find_map(|part| part.shape())
    }
}

/// How requests become texts, where that is not left to fastpack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Prompt {
    /// The text that Stanford Alpaca was trained with.
    Alpaca,
    /// `ChatML`
    Chatml,
    /// The text that Vicuna was trained with.
    Vicuna,
    /// A published text for mathematics, by its name.
    Math(MathPrompt),
    /// Parts that are put together.
    Parts(PromptParts),
    /// A text with the names of parts in braces.
    Format(String),
}

/// Texts that models for mathematics are trained and asked with; the names are those of DART-Math.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MathPrompt {
    /// `qa`
    Qa,
    /// `wizardmath-cot`
    WizardmathCot,
    /// `deepseekmath`
    Deepseekmath,
    /// `deepseekmath-tool`
    DeepseekmathTool,
    /// `xwinmath`
    Xwinmath,
    /// `mammoth2-cot`
    Mammoth2Cot,
    /// `llama3-math`
    Llama3Math,
}

impl MathPrompt {
    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Qa => "qa",
            Self::WizardmathCot => "wizardmath-cot",
            Self::Deepseekmath => "deepseekmath",
            Self::DeepseekmathTool => "deepseekmath-tool",
            Self::Xwinmath => "xwinmath",
            Self::Mammoth2Cot => "mammoth2-cot",
            Self::Llama3Math => "llama3-math",
        }
    }
}

/// The parts of a prompt: `{system}{before}{request}{after}{lead}`, and what stands between it and its examples.
///
/// Blanks at the end of `lead` stand before the answers of examples, but not before the answer that is trained, where they
/// would be tokens of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptParts {
    /// What begins the text.
    pub system: String,
    /// What stands before a request.
    pub before: String,
    /// What stands behind a request.
    pub after: String,
    /// What leads to an answer.
    pub lead: String,
    /// What stands between two examples, and before the request.
    pub delimiter: String,
}

/// How the records of a source are looked at, where that is not left to fastpack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// What the records are; found by the first of them if not given.
    pub shape: Option<ShapeName>,
    /// Where a record holds its parts.
    pub fields: Fields,
    /// How requests become texts; by the chat template if there is one, else as Alpaca has it, if not given.
    pub prompt: Option<Prompt>,
    /// Requests and their answers that stand before each request.
    pub examples: Vec<(String, String)>,
    /// What stands between the documents of a file of text; each is one document if not given.
    pub separator: Option<String>,
}

impl Reading {
    /// The shape that is named, by itself or by one of its parts.
    pub fn named_shape(&self) -> Option<ShapeName> {
        self.shape.or_else(|| self.fields.shape())
    }

    /// Checks the rules between the options.
    fn validate(&self) -> Result<()> {
        if self.fields.0.values().any(String::is_empty) {
            return Err(Error::option("fields", "names a field without a name"));
        }
        if self.separator.as_ref().is_some_and(String::is_empty) {
            return Err(Error::option("separator", "must be a text of at least one character"));
        }
        let named = self.named_shape();
        let other =
            self.fields.0.keys().filter_map(|part| part.shape()).find(|it| Some(*it) != named);
        if let (Some(named), Some(other)) = (named, other) {
            let reason = format!("names parts of `{}` and of `{}`", named.name(), other.name());
            return Err(Error::option("fields", reason));
        }
        Ok(())
    }
}

/// Files that are read alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Files, folders, globs and brace lists, in the order given.
    pub patterns: Vec<PathBuf>,
    /// How their records are looked at.
    pub reading: Reading,
    /// How many of their records are read, the first of all files; all if not given.
    pub limit: Option<NonZeroU64>,
    /// How many times they are read.
    pub repeat: NonZeroU64,
}

impl Source {
    /// All records of these files, once.
    pub fn of(patterns: Vec<PathBuf>, reading: Reading) -> Self {
        Self { patterns, reading, limit: None, repeat: NonZeroU64::MIN }
    }

    /// Checks the rules that one option alone cannot break.
    pub fn validate(&self) -> Result<()> {
        self.reading.validate()
    }
}

/// What is read, before it is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inputs {
    /// The sources, in the order in which they are read.
    pub sources: Vec<Source>,
    /// Whether folders inside a folder are read too.
    pub recursive: bool,
}
