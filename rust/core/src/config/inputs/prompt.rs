//! [`Prompt`]: the prompt format that the caller chose for requests.

use serde::{Deserialize, Serialize};

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
