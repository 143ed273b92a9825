//! The inputs: sources, and the options by which their records are read.

pub(crate) mod fields;
pub(super) mod images;
pub(super) mod source_shares;

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use self::images::PICTURE_COLUMNS;
use super::option_words::option_words;
use super::storage::StorageOptions;
use crate::error::{Error, Result};
use crate::util::wording::{message, set};

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
    fn is_general(self) -> bool {
        ShapeName::WORDS.iter().all(|(_, shape)| !self.is_of(*shape))
    }

    /// True if this part belongs to records of this shape alone.
    fn is_of(self, shape: ShapeName) -> bool {
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
    fn shape(self, shapes: &[ShapeName]) -> Option<ShapeName> {
        shapes.iter().copied().find(|&shape| self.is_of(shape))
    }
}

/// The field names that the caller gave for parts of a record. Other parts have their usual names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fields(pub BTreeMap<Part, String>);

impl Fields {
    /// The field of a part, if it is named.
    pub fn get(&self, part: Part) -> Option<&str> {
        self.0.get(&part).map(String::as_str)
    }

    /// The columns that may hold the pictures of a conversation: the one that is named, or the usual ones. The first with a value
    /// does.
    pub fn picture_columns(&self) -> impl Iterator<Item = &str> {
        let named = self.get(Part::Images);
        let usual = if named.is_none() { &PICTURE_COLUMNS[..] } else { &[] };
        named.into_iter().chain(usual.iter().copied())
    }

    /// True for a column that may hold the pictures of a conversation.
    pub fn names_pictures(&self, column: &str) -> bool {
        self.picture_columns().any(|known| known == column)
    }

    /// The shape among `shapes` whose parts are named. A part that all of several shapes have names none of them.
    pub fn shape(&self, shapes: &[ShapeName]) -> Option<ShapeName> {
        let tells = |part: &&Part| shapes.len() < 2 || !shapes.iter().all(|it| part.is_of(*it));
        self.0.keys().filter(tells).find_map(|part| part.shape(shapes))
    }
}

/// The prompt format that the caller chose for requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Prompt {
    /// The prompt that Stanford Alpaca was trained with.
    Alpaca,
    /// `ChatML`
    Chatml,
    /// The prompt that Vicuna was trained with.
    Vicuna,
    /// A published prompt for mathematics, by its name.
    Math(MathPrompt),
    /// A prompt put together from parts.
    Parts(PromptParts),
    /// A format string with the names of parts in braces.
    Format(String),
}

/// Published prompts of models for mathematics. The names are those of DART-Math.
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

/// The parts of a prompt: `{system}{before}{request}{after}{lead}`, and the delimiter between examples.
///
/// Spaces at the end of `lead` stand before the answers of examples. They are left out before the trained
/// answer, where they would be tokens of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptParts {
    /// The beginning of the text.
    pub system: String,
    /// The text before a request.
    pub before: String,
    /// The text after a request.
    pub after: String,
    /// The text before an answer.
    pub lead: String,
    /// The text between two examples, and before the request.
    pub delimiter: String,
}

/// The options by which the records of a source are read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The shape of the records; by default it is found by the first of them.
    pub shape: Option<ShapeName>,
    /// The fields of the parts of a record.
    pub fields: Fields,
    /// The prompt format of requests; by default the chat template if there is one, else Alpaca.
    pub prompt: Option<Prompt>,
    /// Examples: requests with answers that stand before each request.
    pub examples: Vec<(String, String)>,
    /// The separator between the documents of a text file; without it, each file is one document.
    pub separator: Option<String>,
}

impl Reading {
    /// The shape among `shapes` that `shape` or the name of a field gives.
    pub fn named_shape(&self, shapes: &[ShapeName]) -> Option<ShapeName> {
        self.shape.or_else(|| self.fields.shape(shapes))
    }

    /// Checks that the options name records of these shapes, which `objective` takes.
    pub fn validate_for(&self, shapes: &[ShapeName], objective: &'static str) -> Result<()> {
        let with = || set("objective", objective);
        if let Some(shape) = self.shape.filter(|shape| !shapes.contains(shape)) {
            let known: Vec<String> =
                shapes.iter().map(|shape| format!("\"{}\"", shape.name())).collect();
            let reason = message![
                format!("is \"{}\", which means nothing with ", shape.name()),
                with(),
                format!("; known are {}", known.join(", ")),
            ];
            return Err(Error::option("reading.shape", reason));
        }
        let other = |part: &&Part| !part.is_general() && part.shape(shapes).is_none();
        if let Some(part) = self.fields.0.keys().find(other) {
            let reason =
                message![format!("names `{}`, which records have not with ", part.name()), with(),];
            return Err(Error::option("reading.fields", reason));
        }
        self.one_shape(shapes)
    }

    /// Checks that the named fields are those of one of these shapes.
    fn one_shape(&self, shapes: &[ShapeName]) -> Result<()> {
        let Some(named) = self.named_shape(shapes) else { return Ok(()) };
        let other = self.fields.0.keys().filter(|part| !part.is_of(named));
        if let Some(other) = other.clone().find_map(|part| part.shape(shapes)) {
            let reason = format!("names parts of `{}` and of `{}`", named.name(), other.name());
            return Err(Error::option("reading.fields", reason));
        }
        Ok(())
    }

    /// Checks the rules between the options.
    fn validate(&self) -> Result<()> {
        if self.fields.0.values().any(String::is_empty) {
            return Err(Error::option("reading.fields", "names a field without a name"));
        }
        if self.separator.as_ref().is_some_and(String::is_empty) {
            return Err(Error::option(
                "reading.separator",
                "must be a text of at least one character",
            ));
        }
        let has_all = |shape: &ShapeName| self.fields.0.keys().all(|part| part.is_of(*shape));
        if ShapeName::ALL.iter().any(has_all) { Ok(()) } else { self.one_shape(&ShapeName::ALL) }
    }
}

/// Files that are read with the same options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Files, folders, globs and brace lists, in the order given.
    pub patterns: Vec<PathBuf>,
    /// The options by which their records are read.
    pub reading: Reading,
    /// The most records that are read, counted over all files; all by default.
    pub limit: Option<NonZeroU64>,
    /// The number of times that the records are read.
    pub repeat: NonZeroU64,
    /// The records, if the caller gives them and no files are read.
    pub records: Option<RecordSource>,
}

/// Records that the caller gives anew for each epoch of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSource {
    /// The name in errors and reports.
    pub name: String,
    /// The identity of the records, where the caller knows it.
    pub known_as: Option<String>,
    /// The name of the function or class, or the description of the data set.
    pub kind: String,
}

impl Source {
    /// All records of these files, once.
    pub fn of(patterns: Vec<PathBuf>, reading: Reading) -> Self {
        Self { patterns, reading, limit: None, repeat: NonZeroU64::MIN, records: None }
    }

    /// Checks the rules between options.
    pub fn validate(&self) -> Result<()> {
        self.reading.validate()
    }
}

/// The inputs of a run, before files are searched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    /// The sources, in the order in which they are read.
    pub sources: Vec<Source>,
    /// True if folders inside a folder are read too.
    pub recursive: bool,
    /// The options of remote storage.
    pub storage: StorageOptions,
}
