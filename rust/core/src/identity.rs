//! [`Identity`]: what makes a job the same as another: all that decides its output, and the state of its inputs.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;

use chrono::NaiveDateTime;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::{Output, Reading, RowOptions, Source, TokenOptions};

/// The differences that a message names.
const NAMED: usize = 6;

/// The parts of an identity whose own parts are known to users by their names alone: options and files.
const UNNAMED: [&str; 9] = [
    "",
    "inputs",
    "files",
    "memory",
    "token_options",
    "row_options",
    "packing",
    "output",
    "made_by",
];

/// The part of an identity that tells a run from others of a job that cannot be known again.
const RUN: &str = "run";

/// What makes a job the same as another. The manifest of a folder holds it as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// The version of fastpack.
    pub fastpack: String,
    /// What is packed.
    pub inputs: Packed,
    /// How the records of each source are read, and how many of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<ReadAs>,
    /// What makes tokens of records; nothing where tokens are packed that were kept.
    pub made_by: Option<MadeBy>,
    /// What decides which rows there are; nothing where tokens alone are kept.
    pub row_options: Option<RowOptions>,
    /// What decides which tokens they are made of.
    pub token_options: TokenOptions,
    /// What decides which files hold them.
    pub output: Option<Output>,
    /// A number that no other run has, where nothing tells whether two jobs are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// What is packed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Packed {
    /// Files, by their paths.
    Files(BTreeMap<String, FileState>),
    /// Records in memory, by what errors call them.
    Memory(BTreeMap<String, MemoryState>),
    /// The content of files, whatever their paths.
    Content(Vec<FileContent>),
    /// Tokens that were kept: a hash of the identity of their job.
    Tokens(String),
}

/// The state of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    /// Its place among the files, from 0.
    pub place: u64,
    /// Its size in bytes.
    pub size: u64,
    /// When it was last changed, in nanoseconds since 1970.
    pub modified: u64,
    /// The source that it belongs to, from 0.
    pub source: u64,
}

/// The state of records in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryState {
    /// A hash of them, if anything tells them from others before they are read.
    pub records: Option<String>,
}

/// What tells the content of a file from others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileContent {
    /// Its format.
    pub format: String,
    /// The source that it belongs to, from 0.
    pub source: u64,
    /// The file that it is, one that is read in several ways counted once.
    pub same: u64,
    /// The BLAKE3 hash of its bytes, in hexadecimal.
    pub blake3: String,
}

/// How the records of a source are read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadAs {
    reading: Reading,
    limit: Option<NonZeroU64>,
    repeat: NonZeroU64,
}

impl From<&Source> for ReadAs {
    fn from(source: &Source) -> Self {
        let Source { reading, limit, repeat, .. } = source;
        Self { reading: reading.clone(), limit: *limit, repeat: *repeat }
    }
}

/// What makes tokens of records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeBy {
    /// The fingerprint of the tokenizer, if there is one.
    pub tokenizer: Option<String>,
    /// The id that begins a text.
    pub bos_id: Option<u32>,
    /// The id that ends one.
    pub eos_id: Option<u32>,
    /// The id that fills rows up.
    pub pad_id: Option<u32>,
    /// The largest id of the tokenizer, where files may hold ids in 16 bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_id: Option<u32>,
    /// The fingerprint of the template, if conversations can be rendered.
    pub template: Option<String>,
    /// What tells the functions of the caller from others, if there are any and it can be told.
    pub transform: Option<String>,
    /// Whether conversations may be cut behind a turn, for which the ends of turns are kept.
    pub trims: bool,
    /// What the template sees as the time of day, where the time of the first run does not stand for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<NaiveDateTime>,
}

impl Identity {
    /// This version of fastpack.
    pub fn version() -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }

    /// A short name: a hash.
    pub fn name(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&json(self));
        hasher.finalize().to_hex().to_string()
    }

    /// Whether the tokens of the job have the ends of turns.
    pub fn trims(&self) -> bool {
        self.made_by.as_ref().is_some_and(|made_by| made_by.trims)
    }

    /// The files in their order.
    pub fn files(&self) -> Vec<Arc<Path>> {
        let Packed::Files(files) = &self.inputs else { return Vec::new() };
        let mut files: Vec<_> = files.iter().map(|(path, state)| (state.place, path)).collect();
        files.sort_unstable();
        files.into_iter().map(|(_, path)| Arc::from(Path::new(path))).collect()
    }

    /// Whether each input has an output of its own.
    pub fn is_per_file(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.per_file)
    }

    /// Where this job and `other` differ, in words; nothing if they are the same.
    ///
    /// Two runs of a job that cannot be known again may well be of the same job, so that is no difference.
    pub fn differences(&self, other: &Self) -> Option<String> {
        if self == other {
            return None;
        }
        let mut found = Vec::new();
        compare("", &value(self), &value(other), &mut found);
        let more = found.len().saturating_sub(NAMED);
        found.truncate(NAMED);
        if more > 0 {
            found.push(format!("and {more} more"));
        }
        Some(found.join(", ")).filter(|words| !words.is_empty())
    }
}

/// An identity as JSON, which is made of strings and numbers alone.
fn json(identity: &Identity) -> Vec<u8> {
    serde_json::to_vec(identity).expect("strings and numbers become JSON")
}

fn value(identity: &Identity) -> Value {
    serde_json::to_value(identity).expect("strings and numbers become JSON")
}

fn compare(name: &str, there: &Value, here: &Value, found: &mut Vec<String>) {
    let (Value::Object(old), Value::Object(new)) = (there, here) else {
        if there != here {
            found.push(format!("`{name}` ({} there, {} here)", brief(there), brief(here)));
        }
        return;
    };
    let added = new.keys().filter(|key| !old.contains_key(*key));
    let keys = old.keys().chain(added).filter(|key| !name.is_empty() || *key != RUN);
    for key in keys {
        let name = if UNNAMED.contains(&name) { key.clone() } else { format!("{name}.{key}") };
        match (old.get(key), new.get(key)) {
            (Some(Value::Object(_)), None) => found.push(format!("`{name}` (there alone)")),
            (None, Some(Value::Object(_))) => found.push(format!("`{name}` (here alone)")),
            (there, here) => {
                let side = |value: Option<&Value>| value.cloned().unwrap_or(Value::Null);
                compare(&name, &side(there), &side(here), found);
            }
        }
    }
}

/// A value short enough for a message.
fn brief(value: &Value) -> String {
    /// Characters that tell most values apart and leave a message readable.
    const MOST: usize = 40;
    let text = value.to_string();
    if text.chars().count() <= MOST {
        return text;
    }
    text.chars().take(MOST).chain(['…']).collect()
}
