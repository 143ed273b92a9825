//! [`RunFacts`]: the inputs that a run read, and the engines that read them.

use serde::{Deserialize, Serialize};

/// The inputs that a run read, and the engines that read them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFacts {
    /// Files read.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// The formats and shapes of the files.
    #[serde(default)]
    pub inputs: Vec<InputReport>,
    /// The paths of the files, by the numbers that rows use; empty where rows have none.
    #[serde(default)]
    pub sources: Vec<String>,
    /// The tokenizer as the caller named it; `None` for a tokenizer object.
    pub tokenizer: Option<String>,
    /// The engine that makes the ids: `compiled` or `reference`.
    pub engine: String,
    /// The component of the tokenizer that forced the engine.
    pub engine_reason: Option<String>,
    /// The engine that renders conversations: `compiled` or `interpreted`; `None` where there were none.
    #[serde(default)]
    pub template_engine: Option<String>,
    /// The reason that the template is not compiled.
    #[serde(default)]
    pub template_engine_reason: Option<String>,
    /// The names of the classes, by the numbers that rows use; empty where no names are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// Warnings.
    pub warnings: Vec<String>,
}

/// Files of the same format and shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputReport {
    /// The number of files.
    pub files: u64,
    /// The paths of the first of them.
    #[serde(default)]
    pub names: Vec<String>,
    /// The container and the compression, written as a file extension: `jsonl.gz`.
    pub format: String,
    /// The shape of the records; `None` where no record shows one.
    pub shape: Option<String>,
    /// The fields that were read.
    pub fields: Vec<String>,
    /// The prompt format of the records; `None` for texts and ids.
    pub prompt: Option<String>,
    /// The number of times that they were read.
    #[serde(default = "once")]
    pub repeat: u64,
    /// The limit of records for each reading, over all of these files; `None` without a limit.
    #[serde(default)]
    pub limit: Option<u64>,
}

fn once() -> u64 {
    1
}
