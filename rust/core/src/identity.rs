//! [`Identity`]: all options and inputs that decide the output of a job. Equal identities mean the same job.

use std::collections::BTreeMap;
use std::io::BufWriter;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;

use chrono::NaiveDateTime;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::{Output, Reading, RowOptions, Source, TokenOptions};
use crate::listed_path::ListedPath;
use crate::redaction::without_secrets;

/// The most differences in a message.
const NAMED: usize = 6;

/// The parts of an identity that a message leaves out of a path: users know their options and files by name
/// alone.
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

/// The part of an identity that keeps runs apart whose records or functions have no identity.
const RUN: &str = "run";

/// The identity of a job. The manifest of a folder holds it as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// The version of fastpack.
    pub fastpack: String,
    /// The records that are packed.
    pub inputs: JobInputs,
    /// The options by which the records of each source are read, and their limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<ReadAs>,
    /// The tokenizer, template and functions; `None` where kept tokens are packed.
    pub made_by: Option<MadeBy>,
    /// The options that decide the rows; `None` where only tokens are kept.
    pub row_options: Option<RowOptions>,
    /// The options that decide the tokens.
    pub token_options: TokenOptions,
    /// The options that decide the files.
    pub output: Option<Output>,
    /// A unique number of the run, where the records or functions have no identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// The records that are packed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobInputs {
    /// Files, by their paths.
    Files(BTreeMap<ListedPath, FileState>),
    /// Records in memory, by their name in errors.
    Memory(BTreeMap<String, MemoryState>),
    /// The content of files, whatever their paths.
    Content(Vec<FileContent>),
    /// Kept tokens: the hash of the identity of their job.
    Tokens(String),
    /// A group of the inputs of a job.
    Group(GroupOfJob),
}

/// A group of the inputs of a job, in one step of its work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupOfJob {
    /// The hash of the identity of the job.
    pub job: String,
    /// The number of the group, from 0.
    pub group: u64,
    /// The name of the step.
    pub step: String,
}

/// The state of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    /// Its place among the files, from 0.
    pub place: u64,
    /// Its size in bytes.
    pub size: u64,
    /// The time of the last change, in nanoseconds since 1970.
    pub modified: u64,
    /// The source that it belongs to, from 0.
    pub source: u64,
    /// The etag of an object in remote storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<Box<str>>,
}

/// The state of records in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryState {
    /// A hash of the records; `None` if they have no identity before they are read.
    pub records: Option<String>,
}

/// The identity of a file by its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileContent {
    /// Its format.
    pub format: String,
    /// The source that it belongs to, from 0.
    pub source: u64,
    /// The number of the file. A file that is read in several ways has one number.
    pub same: u64,
    /// The BLAKE3 hash of its bytes, in hexadecimal.
    pub blake3: String,
}

/// The options by which the records of a source are read.
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

/// The tokenizer, the template and the functions that make tokens from records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeBy {
    /// The fingerprint of the tokenizer, if there is one.
    pub tokenizer: Option<String>,
    /// The beginning-of-text id.
    pub bos_id: Option<u32>,
    /// The end-of-text id.
    pub eos_id: Option<u32>,
    /// The padding id.
    pub pad_id: Option<u32>,
    /// The largest id of the tokenizer, where files may hold ids in 16 bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_id: Option<u32>,
    /// The fingerprint of the template, if conversations can be rendered.
    pub template: Option<String>,
    /// The identity of the caller's functions, if there are any and they have one.
    pub transform: Option<String>,
    /// Whether conversations may be cut after a turn. The ends of turns are kept for that.
    pub trims: bool,
    /// The time of day that the template sees, unless it is that of the first run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<NaiveDateTime>,
}

impl Identity {
    /// This version of fastpack.
    pub fn version() -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }

    /// A short name: a hash.
    #[expect(clippy::missing_panics_doc, reason = "it cannot")]
    pub fn name(&self) -> String {
        let mut out = BufWriter::new(blake3::Hasher::new());
        serde_json::to_writer(&mut out, self).expect("strings and numbers become JSON");
        let hasher = out.into_inner().expect("a hasher takes all that is written");
        hasher.finalize().to_hex().to_string()
    }

    /// Whether the tokens of the job include the ends of turns.
    pub fn trims(&self) -> bool {
        self.made_by.as_ref().is_some_and(|made_by| made_by.trims)
    }

    /// The files in their order.
    pub fn files(&self) -> Vec<Arc<Path>> {
        let JobInputs::Files(files) = &self.inputs else { return Vec::new() };
        let mut files: Vec<_> = files.iter().map(|(path, state)| (state.place, path)).collect();
        files.sort_unstable();
        files.into_iter().map(|(_, path)| Arc::clone(path.path())).collect()
    }

    /// The files in their order: the bytes of each, counted once for each reading, its source, and whether that has a
    /// limit.
    pub fn sized_files(&self) -> Vec<(u64, usize, bool)> {
        let JobInputs::Files(files) = &self.inputs else { return Vec::new() };
        let mut files: Vec<&FileState> = files.values().collect();
        files.sort_unstable_by_key(|state| state.place);
        let sized = |state: &&FileState| {
            let source = usize::try_from(state.source).unwrap_or(usize::MAX);
            let read = self.sources.get(source);
            let repeat = read.map_or(1, |read| read.repeat.get());
            let is_limited = read.is_some_and(|read| read.limit.is_some());
            (state.size.saturating_mul(repeat), source, is_limited)
        };
        files.iter().map(sized).collect()
    }

    /// Whether the job is cut into groups of inputs, which are packed alone.
    pub fn is_grouped(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.group_bytes.is_some())
    }

    /// Whether each input has an output of its own.
    pub fn is_per_file(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.per_file)
    }

    /// The differences between this job and `other`, in words; `None` if they are the same.
    ///
    /// The run number alone is no difference: two runs with it may be of the same job.
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
    /// Enough characters to tell most values apart in a readable message.
    const MOST: usize = 40;
    let text = value.to_string();
    // A password that is cut in its middle is no longer known as one.
    let text = without_secrets(&text);
    if text.chars().count() <= MOST {
        return text.into_owned();
    }
    text.chars().take(MOST).chain(['…']).collect()
}
