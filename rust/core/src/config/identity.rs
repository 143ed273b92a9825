//! [`Identity`]: all options and inputs that decide the output of a job. Equal identities mean the same job.

use std::collections::BTreeMap;
use std::io::BufWriter;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;

use chrono::NaiveDateTime;
use fastpack_tokenize::BuiltBy;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::config::{Output, Reading, RowOptions, Source, TokenOptions};
use crate::report::listed_path::ListedPath;
use crate::util::redaction::without_secrets;

/// The most differences in a message.
const NAMED: usize = 6;

/// The parts of an identity that a message leaves out of a path: users know their options and files by name
/// alone.
const UNNAMED: [&str; 13] = [
    "inputs",
    "inputs.files",
    "inputs.memory",
    "inputs.streamed",
    "sources",
    "made_by",
    "row_options",
    "row_options.packing",
    "token_options",
    "output",
    "stream_options",
    "stream_options.choice",
    "stream_options.choice.numbers",
];

/// The part of an identity that keeps runs apart whose records or functions have no identity.
const RUN: &str = "run";

/// The field that holds the word of an option whose value has options of its own.
const KIND: &str = "kind";

/// Options by their names.
type OptionFields = Map<String, Value>;

/// The identity of a job or a stream. The manifest of a folder and the state of a stream hold it as JSON.
///
/// A field of an options type is part of it, unless serde skips the field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// The version of fastpack; empty for a stream, whose states have a version of their own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
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
    /// The options that decide the rows of a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_options: Option<OptionFields>,
    /// A unique number of the run, where the records or functions have no identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The hash of the identity of the job to whose rows those of the last files were appended, if they were packed alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub appended_to: Option<String>,
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
    /// The sources of a stream by their names: a hash of the list of files, or what is known of records.
    Streamed(BTreeMap<String, String>),
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
    /// The sizes up to which it was read before, ascending, if lines of it were appended to the rows of those before them.
    #[serde(default, skip_serializing_if = "<[u64]>::is_empty")]
    pub grown: Box<[u64]>,
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

impl ReadAs {
    /// True if its files are read once, and to their ends.
    pub fn is_whole(&self) -> bool {
        self.limit.is_none() && self.repeat.get() == 1
    }
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
    /// The transformers that built it, if fastpack did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub built_by: Option<BuiltBy>,
    /// The beginning-of-text id.
    pub bos_id: Option<u32>,
    /// The end-of-text id.
    pub eos_id: Option<u32>,
    /// The padding id.
    pub pad_id: Option<u32>,
    /// A hash of the named special tokens, which objectives look up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub special_tokens: Option<String>,
    /// The largest id of the tokenizer, where files may hold ids in 16 bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_id: Option<u32>,
    /// The fingerprint of the template, if conversations can be rendered.
    pub template: Option<String>,
    /// The identity of the caller's functions, if there are any and they have one.
    pub transform: Option<String>,
    /// True if conversations may be cut after a turn. The ends of turns are kept for that.
    pub trims: bool,
    /// The time of day that the template sees, unless it is that of the first run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<NaiveDateTime>,
}

/// A file of a job, as far as it decides the groups.
#[derive(Clone, Copy, Debug)]
pub struct SizedInput {
    /// Its bytes, counted once for each reading.
    pub bytes: u64,
    /// The index of its source.
    pub source: usize,
    /// True if the source has a limit of records, which holds for all of its files together.
    pub is_limited: bool,
}

impl Identity {
    /// The options of a stream, without those that are absent or skipped.
    #[expect(clippy::missing_panics_doc, reason = "it cannot")]
    pub fn stream_options(options: &impl Serialize) -> OptionFields {
        let options = serde_json::to_value(options).expect("strings and numbers become JSON");
        let Value::Object(mut options) = options else { return Map::new() };
        options.retain(|_, value| !value.is_null());
        options
    }

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

    /// True if the tokens of the job include the ends of turns.
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

    /// The files in their order.
    pub fn sized_files(&self) -> Vec<SizedInput> {
        let JobInputs::Files(files) = &self.inputs else { return Vec::new() };
        let mut files: Vec<&FileState> = files.values().collect();
        files.sort_unstable_by_key(|state| state.place);
        let sized = |state: &&FileState| {
            let source = usize::try_from(state.source).unwrap_or(usize::MAX);
            let read = self.sources.get(source);
            let repeat = read.map_or(1, |read| read.repeat.get());
            let is_limited = read.is_some_and(|read| read.limit.is_some());
            SizedInput { bytes: state.size.saturating_mul(repeat), source, is_limited }
        };
        files.iter().map(sized).collect()
    }

    /// True if the job is cut into groups of inputs, which are packed alone.
    pub fn is_grouped(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.group_bytes.is_some())
    }

    /// True if each input has an output of its own.
    pub fn is_per_file(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.per_file)
    }

    /// The identity of a stream with other options.
    pub(crate) fn with_stream_options(&self, options: &impl Serialize) -> Self {
        Self { stream_options: Some(Self::stream_options(options)), ..self.clone() }
    }

    /// The differences between this job and `other`, in words; `None` if they are the same.
    ///
    /// The run number alone is no difference: two runs with it may be of the same job.
    pub fn differences(&self, other: &Self) -> Option<String> {
        self.differences_by(other, "there", &|_, _, _| None)
    }

    /// The [`differences`](Self::differences), each value of this job followed by the word `there`. `explain` may say what
    /// differs between two values of a name.
    pub(crate) fn differences_by(
        &self,
        other: &Self,
        there: &'static str,
        explain: DescribeDifference<'_>,
    ) -> Option<String> {
        if self == other {
            return None;
        }
        let mut comparison = IdentityComparison { there, explain, found: Vec::new() };
        comparison.compare("", &value(self), &value(other));
        let mut found = comparison.by_option();
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

/// Says what differs between two values of a name, where more can be said than the values.
pub(crate) type DescribeDifference<'e> = &'e dyn Fn(&str, &Value, &Value) -> Option<String>;

/// The options behind the fields of an identity that do not bear the name of their option: these are made from what the caller
/// gave, or several together are one option.
///
/// The path of a field is without the numbers of entries in lists.
const OPTION_OF_FIELD: [(&str, &str); 25] = [
    ("appended_to", "exists"),
    ("sources", "files"),
    ("made_by.built_by", "tokenizer"),
    ("made_by.built_by.tokenizer_json", "tokenizer"),
    ("made_by.built_by.transformers", "version of transformers"),
    ("made_by.largest_id", "tokenizer"),
    ("made_by.special_tokens", "tokenizer"),
    ("made_by.template", "chat_template"),
    ("made_by.time", "chat_template.now"),
    ("made_by.transform", "filter, map and the function of the objective"),
    ("made_by.trims", "overlong"),
    ("row_options.objective.mixture", "objective"),
    ("row_options.objective.mixture.mean_gap_length", "objective.mean_gap_length"),
    ("row_options.objective.mixture.mean_noise_span_length", "objective.mean_noise_span_length"),
    ("row_options.objective.mixture.noise_density", "objective.noise_density"),
    ("row_options.weights", "weights and fraction"),
    ("row_options.weights.sources", "files"),
    ("row_options.weights.sources.fraction", "fraction"),
    ("row_options.weights.sources.name", "files"),
    ("row_options.weights.sources.weight", "weights"),
    ("token_options.documents", "objective"),
    ("token_options.reading.images.adds_special_tokens", "reading.images"),
    ("token_options.reading.images.delimiters", "reading.images"),
    ("token_options.reading.images.marker", "reading.images"),
    ("token_options.reading.images.processor", "reading.images"),
];

/// The fields that follow from other options. They are named only where nothing else differs, as between jobs that make tokens alone.
const FOLLOWING: [&str; 3] = ["made_by.largest_id", "made_by.trims", "token_options.documents"];

/// The name by which a message tells the caller of the field at `path`.
fn option_at(path: &str) -> String {
    let is_field = |part: &&str| part.parse::<usize>().is_err();
    let fields: Vec<&str> = path.split('.').filter(is_field).collect();
    let fields = fields.join(".");
    if let Some((_, option)) = OPTION_OF_FIELD.iter().find(|(field, _)| *field == fields) {
        return (*option).to_owned();
    }
    // Among several sources, `sources.1.reading.shape` is the `shape` of an entry of `files`.
    if let Some(entry) = path.strip_prefix("sources.").filter(|_| fields.len() < path.len()) {
        return format!("files.{}", entry.replacen("reading.", "", 1));
    }
    let names = UNNAMED.iter().filter_map(|part| path.strip_prefix(part)?.strip_prefix('.'));
    let name = names.min_by_key(|name| name.len()).unwrap_or(path);
    name.strip_suffix(KIND).and_then(|name| name.strip_suffix('.')).unwrap_or(name).to_owned()
}

/// The comparison of two identities.
struct IdentityComparison<'e> {
    there: &'static str,
    explain: DescribeDifference<'e>,
    /// The paths of the fields that differ, each with its difference.
    found: Vec<(String, String)>,
}

impl IdentityComparison<'_> {
    fn compare(&mut self, path: &str, there: &Value, here: &Value) {
        match (there, here) {
            _ if there == here => {}
            (Value::Object(old), Value::Object(new)) => self.compare_fields(path, old, new),
            (Value::Array(old), Value::Array(new))
                if old.len() == new.len() && old.iter().all(Value::is_object) =>
            {
                // The only entry of a list needs no number.
                if let ([old], [new]) = (&old[..], &new[..]) {
                    return self.compare(path, old, new);
                }
                for (number, (old, new)) in old.iter().zip(new).enumerate() {
                    self.compare(&format!("{path}.{number}"), old, new);
                }
            }
            _ => {
                let explained =
                    (self.explain)(&option_at(path), there, here).unwrap_or_else(|| {
                        format!("{} {}, {} here", brief(there), self.there, brief(here))
                    });
                self.found.push((path.to_owned(), explained));
            }
        }
    }

    fn compare_fields(&mut self, path: &str, old: &OptionFields, new: &OptionFields) {
        if let (Some(old), Some(new)) = (old.get(KIND), new.get(KIND))
            && old != new
        {
            return self.compare(&format!("{path}.{KIND}"), old, new);
        }
        let added = new.keys().filter(|key| !old.contains_key(*key));
        let keys = old.keys().chain(added).filter(|key| !path.is_empty() || *key != RUN);
        for key in keys {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            match (old.get(key), new.get(key)) {
                (Some(Value::Object(_)), None) => self.found.push((path, "there alone".to_owned())),
                (None, Some(Value::Object(_))) => self.found.push((path, "here alone".to_owned())),
                (old, new) => {
                    let side = |value: Option<&Value>| value.cloned().unwrap_or(Value::Null);
                    self.compare(&path, &side(old), &side(new));
                }
            }
        }
    }

    /// The differences in words. An option that decides several fields is named once.
    fn by_option(mut self) -> Vec<String> {
        let follows = |path: &str| FOLLOWING.contains(&path);
        if !self.found.iter().all(|(path, _)| follows(path)) {
            self.found.retain(|(path, _)| !follows(path));
        }
        let mut named: Vec<(String, String)> = Vec::new();
        for (path, how) in self.found {
            let option = option_at(&path);
            if named.iter().all(|(known, _)| *known != option) {
                named.push((option, how));
            }
        }
        named.into_iter().map(|(option, how)| format!("`{option}` ({how})")).collect()
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::json;

    use super::*;

    /// An identity with all of its parts.
    fn sample() -> Identity {
        let packing = json!({
            "max_length": 96, "strategy": "concat", "overlong": null, "overlong.side": "right",
            "strategy.drop_last": false, "strategy.shuffle": false, "strategy.max_documents": 3,
            "strategy.align_to": null, "order": null, "order.ranks": null, "order.on_remainder": "pad", "seed": 5,
        });
        let identity = json!({
            "fastpack": "0",
            "inputs": { "streamed": { "source a": "0a1b", "records of b": "one" } },
            "sources": [{ "reading": Reading::default(), "limit": 7, "repeat": 1 }],
            "made_by": {
                "tokenizer": "0a1b", "bos_id": 1, "eos_id": 2, "pad_id": null, "template": "9f",
                "transform": "one", "special_tokens": "77", "trims": false,
            },
            "token_options": {
                "train_on": "auto", "turns": "auto", "special_tokens.train_on_eos": null,
                "special_tokens.eos": "auto", "special_tokens.bos": "auto", "on_bad_record": "error",
                "chat_template.now": null,
            },
            "row_options": {
                "packing": packing, "padding": "nothing", "padding.side": "right", "padding.token_id": 7,
                "objective.shift_labels": false, "columns": ["input_ids", "seq_lengths"], "objective": { "kind": "causal" },
            },
            "output": {
                "format": "arrow", "format.layout": "full", "format.compression": null,
                "format.per_file": false, "format.hf_layout": false, "validation": 0.5,
                "format.shard_size": 512, "keep_tokens": false,
            },
            "stream_options": {
                "shuffle": true, "choice": { "select.where": [], "numbers": { "select.skip": 3 } },
            },
        });
        serde_json::from_value(identity).expect("an identity")
    }

    /// The places of all values in a value.
    fn places(of: &Value, at: &str, found: &mut Vec<String>) {
        found.push(at.to_owned());
        let fields = of.as_object().into_iter().flatten();
        fields.for_each(|(name, value)| places(value, &format!("{at}/{name}"), found));
        let entries = of.as_array().into_iter().flatten().enumerate();
        entries.for_each(|(number, value)| places(value, &format!("{at}/{number}"), found));
    }

    fn differences(there: &Value, here: &Value) -> Vec<String> {
        let mut comparison =
            IdentityComparison { there: "there", explain: &|_, _, _| None, found: Vec::new() };
        comparison.compare("", there, here);
        comparison.by_option()
    }

    #[test]
    fn a_field_that_any_type_of_options_gains_is_part_of_an_identity() {
        let whole = value(&sample());
        let (mut all, mut types) = (Vec::new(), 0);
        places(&whole, "", &mut all);
        for place in all {
            let grown = |value: u32| {
                let mut grown = whole.clone();
                let fields = grown.pointer_mut(&place).and_then(Value::as_object_mut)?;
                fields.insert("added".to_owned(), json!(value));
                Some(grown)
            };
            let Some((one, other)) = grown(1).zip(grown(2)) else { continue };
            types += 1;
            for there in [&one, &whole] {
                let found = differences(there, &other);
                let [only] = &found[..] else { panic!("{place}: {found:?}") };
                assert!(only.contains("added`"), "{place}: {only}");
            }
        }
        assert!(types >= 12, "{types}");
    }

    #[test]
    fn every_value_of_an_identity_is_part_of_its_name_and_its_differences() {
        let whole = sample();
        let written = value(&whole);
        let (mut all, mut changed) = (Vec::new(), 0);
        places(&written, "", &mut all);
        for place in all {
            let others = [json!(true), json!(false), json!(11), json!("best_fit"), json!("left")];
            for other in others {
                let mut changing = written.clone();
                *changing.pointer_mut(&place).expect("a place of it") = other;
                let Ok(changing) = serde_json::from_value::<Identity>(changing) else { continue };
                if value(&changing) == written {
                    continue;
                }
                changed += 1;
                assert_ne!(changing.name(), whole.name(), "{place}");
                assert!(whole.differences(&changing).is_some(), "{place}");
            }
        }
        assert!(changed >= 40, "{changed}");
    }

    /// Identities that have all fields together, but for those of streams, as the types of the options write them.
    fn full() -> Vec<Value> {
        let objectives = [
            json!({
                "kind": "mlm", "probability": 0.1, "mask_replace_prob": 0.8, "random_replace_prob": 0.1,
                "whole_words": true,
            }),
            json!({ "kind": "span", "mixture": [{ "noise_density": 0.1, "mean_noise_span_length": 3.0 }] }),
            json!({ "kind": "span", "mixture": [{ "mean_gap_length": 9.0, "mean_noise_span_length": 3.0 }] }),
            json!({ "kind": "fim", "rate": 0.5, "spm_rate": 0.5, "tokens": ["a", "b", "c"] }),
            json!({ "kind": "preference", "form": "kto" }),
        ];
        let source = json!({ "name": "a", "weight": 1.0, "fraction": 0.5 });
        let mut whole = value(&sample());
        whole["appended_to"] = json!("0a1b");
        let fields = [
            ("/made_by/built_by", json!({ "transformers": "5.24.0", "tokenizer_json": "0a1b" })),
            ("/made_by/largest_id", json!(9)),
            ("/made_by/time", json!("2026-01-01T00:00:00")),
            ("/token_options/special_tokens.in_text", json!("split")),
            ("/token_options/chat_template.decode_arguments", json!(true)),
            ("/token_options/documents", json!("prompts")),
            ("/token_options/objective.classes", json!(3)),
            (
                "/token_options/reading.images",
                json!({ "marker": "<image>", "delimiters": ["", ""], "adds_special_tokens": true, "processor": {}, "token_types": [], "folder": "photos", "embed": true, "depends_on_number": true, "fetch": true }),
            ),
            ("/row_options/packing/objective.max_target_length", json!(8)),
            ("/row_options/packing/reading.images.max_images_per_pack", json!(4)),
            ("/row_options/packing/reading.images.max_image_tokens_per_pack", json!(64)),
            ("/row_options/objective.copies", json!(2)),
            (
                "/row_options/weights",
                json!({ "sources": [source], "unit": "tokens", "stopping_strategy": "all_exhausted" }),
            ),
            ("/output/groups.size", json!(5)),
        ];
        for (place, field) in fields {
            let (group, name) = place.rsplit_once('/').expect("a place");
            let group = whole.pointer_mut(group).and_then(Value::as_object_mut);
            group.expect("a group").insert(name.to_owned(), field);
        }
        let of_objective = |objective| {
            let mut whole = whole.clone();
            whole["row_options"]["objective"] = objective;
            value(&serde_json::from_value(whole).expect("an identity"))
        };
        objectives.into_iter().map(of_objective).collect()
    }

    #[test]
    fn every_made_field_is_a_field() {
        let mut found = Vec::new();
        for whole in full() {
            places(&whole, "", &mut found);
        }
        let is_name = |part: &&str| part.parse::<usize>().is_err();
        let fields: HashSet<String> = found
            .iter()
            .map(|place| place.split('/').skip(1).filter(is_name).collect::<Vec<_>>().join("."))
            .collect();
        let listed =
            OPTION_OF_FIELD.iter().map(|(field, _)| *field).chain(FOLLOWING).chain(UNNAMED);
        // The tests of streams, in Python, try the fields of streams. The inputs of the sample are streamed too.
        let listed = listed.filter(|field| !field.starts_with("stream_options."));
        let unknown: Vec<&str> = listed.filter(|field| !fields.contains(*field)).collect();
        assert_eq!(unknown, ["inputs.files", "inputs.memory"]);
    }

    #[test]
    fn options_of_the_same_name_in_several_groups_stay_apart() {
        let whole = sample();
        let written = value(&whole);
        let places = [
            ("/row_options/packing/strategy.shuffle", "strategy.shuffle"),
            ("/stream_options/shuffle", "shuffle"),
        ];
        for (place, option) in places {
            let mut other = written.clone();
            let shuffle = other.pointer_mut(place).expect("an option");
            *shuffle = json!(!shuffle.as_bool().expect("a switch"));
            let other: Identity = serde_json::from_value(other).expect("an identity");
            let found = whole.differences(&other).expect("a difference");
            assert!(found.starts_with(&format!("`{option}` (")), "{found}");
        }
    }
}
