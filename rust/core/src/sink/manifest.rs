//! [`Manifest`]: which job a folder was written for, and which files it came to.

use std::collections::BTreeMap;
use std::path::Path;

use chrono::NaiveDateTime;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::arrangement;
use super::lock::WORK;
use super::survey::TOKENS;
use crate::error::{Error, Result};
use crate::regular::Links;
use crate::sealed::{self, Sealed};

/// The name of the file that a finished folder is known by.
pub(super) const MANIFEST: &str = "manifest.json";

/// The layout of the manifest. Whoever changes it counts on.
const VERSION: u32 = 3;

/// The part of a job's identity that tells a run from others of a job that cannot be known again.
pub const RUN: &str = "run";

/// The differences that a message names.
const NAMED: usize = 6;

/// Which job a folder was written for, and which files it came to: [sealed] text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The layout of the manifest.
    pub version: u32,
    /// The identity of the job: what decides the content.
    pub job: Value,
    /// What templates saw as the time of day: the start of the first run of the job, unless it was given.
    pub now: NaiveDateTime,
    /// A hash of the content of each input, by its path; nothing before the job has finished.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub content: BTreeMap<String, String>,
    /// The tokens that were kept, if they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// The shards, in their order; before the job has finished, they stand in a file of their own, by other names.
    pub files: Vec<File>,
    /// The report, and the files that describe the shards to other readers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Beside>,
}

/// The tokens that were kept to be packed again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// The size of the file.
    pub bytes: u64,
    /// The number of blocks in it.
    pub blocks: u64,
    /// The BLAKE3 hash of the headers of its blocks, which have hashes of the blocks, in hexadecimal.
    pub blake3: String,
}

/// A file beside the shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beside {
    /// The name in the folder.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its BLAKE3 hash, in hexadecimal.
    pub blake3: String,
}

impl Beside {
    /// A file called `name` that holds `text`.
    pub(super) fn of(name: String, text: &str) -> Self {
        let blake3 = blake3::hash(text.as_bytes()).to_hex().to_string();
        Self { name, bytes: text.len() as u64, blake3 }
    }
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// The name in the folder.
    pub name: String,
    /// The rows in it.
    pub rows: u64,
    /// Its size.
    pub bytes: u64,
    /// Its BLAKE3 hash, in hexadecimal.
    pub blake3: String,
}

impl Manifest {
    /// A manifest of the layout written today.
    pub(super) fn new(job: Value, now: NaiveDateTime, files: Vec<File>) -> Self {
        let content = BTreeMap::new();
        Self { version: VERSION, job, now, content, tokens: None, files, beside: Vec::new() }
    }

    /// The manifest at `path`; nothing if there is none, or one that this version did not write as it is.
    pub(super) fn read(path: &Path, links: Links) -> Result<Option<Self>> {
        let Sealed::Whole(text) = sealed::read(path, links).map_err(Error::io(path))? else {
            return Ok(None);
        };
        let manifest: Option<Self> = serde_json::from_slice(&text).ok();
        Ok(manifest.filter(|it| it.version == VERSION && it.names().all(is_plain)))
    }

    /// The names in the folder of all files but the manifest.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let shards = self.files.iter().map(|file| file.name.as_str());
        let beside = self.beside.iter().map(|file| file.name.as_str());
        shards.chain(beside).chain(self.tokens.iter().map(|_| TOKENS))
    }

    pub(super) fn to_text(&self) -> String {
        sealed::seal(&serde_json::to_value(self).expect("strings and numbers become JSON"))
    }

    /// Where this job and `job` differ, in words; nothing if they are the same.
    pub(super) fn differences(&self, job: &Value) -> Option<String> {
        // Through text, as the manifest went: a float may come back as its neighbour.
        let job = serde_json::from_str(&job.to_string()).expect("JSON that was just written");
        let mut found = Vec::new();
        compare("", &self.job, &job, &mut found);
        let more = found.len().saturating_sub(NAMED);
        found.truncate(NAMED);
        if more > 0 {
            found.push(format!("and {more} more"));
        }
        Some(found.join(", ")).filter(|words| !words.is_empty())
    }
}

/// Whether a name is of a file in the output folder itself, or in the folder of a split there.
fn is_plain(name: &str) -> bool {
    let name = match name.split_once('/') {
        Some((split, inside)) if arrangement::names().contains(&split) => inside,
        _ => name,
    };
    let path = Path::new(name);
    // What is not its own last part is absolute, has folders in it, or is none.
    path.file_name().is_some_and(|last| last == path.as_os_str()) && name != WORK
}

fn compare(name: &str, there: &Value, here: &Value, found: &mut Vec<String>) {
    let (Value::Object(old), Value::Object(new)) = (there, here) else {
        if there != here {
            found.push(format!("`{name}` ({} there, {} here)", brief(there), brief(here)));
        }
        return;
    };
    let added = new.keys().filter(|key| !old.contains_key(*key));
    // Two runs of a job that cannot be known again may well be of the same job.
    let keys = old.keys().chain(added).filter(|key| !name.is_empty() || *key != RUN);
    for key in keys {
        let name = match name {
            // Options are named as they are given, and so are files.
            "" | "options" | "output" | "inputs" => key.clone(),
            name => format!("{name}.{key}"),
        };
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
