//! [`Identity`]: the options and inputs that decide the rows of a run.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use fastpack_tokenize::Tokenizer;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::files::{FileList, short};
use super::options::StreamOptions;
use crate::config::{Options, Source};
use crate::control::Control;
use crate::error::Result;
use crate::pipeline::{Job, JobTemplate};
use crate::source::FoundFiles;

/// The options and inputs that decide the rows of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Identity(Arc<Map<String, Value>>);

/// The prefix of the name of a source where an identity names its files.
const FILES: &str = "source ";

impl Identity {
    /// The identity of a stream of `found`.
    pub(super) fn of(
        job: &Job,
        found: &FoundFiles,
        stream: &StreamOptions,
        control: &Control,
    ) -> Result<Self> {
        let mut identity = Map::new();
        for (number, source) in found.sources.iter().enumerate() {
            let files = found.files.iter().filter(|file| file.source == number);
            let name = stream.name(number);
            // The patterns are known by the files that they found.
            let Source { patterns: _, reading, limit, repeat, records } = source;
            if let Some(records) = records {
                let known = records.known_as.as_ref().unwrap_or(&records.kind);
                identity.insert(format!("records of {name}"), json!(known));
            } else {
                let list = FileList::of(files, control)?;
                if let Some(dir) = stream.index_dir() {
                    list.keep(dir)?;
                }
                identity.insert(format!("{FILES}{name}"), json!(list.hash()));
            }
            identity.insert(format!("reading {name}"), json!((reading, limit, repeat)));
        }
        // The tokenizer is known by its content, not by the name that the user gave.
        let Job {
            options,
            tokenizer,
            bos_id,
            begin,
            end,
            eos_id,
            pad_id,
            special_tokens,
            template,
            finds_classes,
            transform,
            tokenizer_name: _,
        } = job;
        let template = match template {
            JobTemplate::Ready(template) => Some(template.fingerprint()),
            JobTemplate::Refused(_) => None,
        };
        let tokenizer = tokenizer.as_ref().map(Tokenizer::fingerprint);
        identity.insert("tokenizer".to_owned(), json!(tokenizer.map(short)));
        identity.insert("chat_template".to_owned(), json!(template.as_deref().map(short)));
        // Fingerprints are texts of any length. That a function has none is said as it is: nobody can tell whether it is the same.
        let functions = transform.identity.as_deref().map(|it| {
            let hash = blake3::hash(it.as_bytes()).to_hex();
            if transform.is_identified() { short(&hash).to_owned() } else { it.to_owned() }
        });
        identity.insert("filter, map and objective_function".to_owned(), json!(functions));
        let tokens = json!([bos_id, eos_id, pad_id, begin, end, special_tokens, finds_classes]);
        let tokens = blake3::hash(tokens.to_string().as_bytes()).to_hex();
        identity.insert("special tokens".to_owned(), json!(short(&tokens)));
        identity.extend(Self::of_options(options, stream).0.as_ref().clone());
        Ok(Self(Arc::new(identity)))
    }

    /// The part of an identity that is known before anything is read.
    pub(super) fn of_options(options: &Options, stream: &StreamOptions) -> Self {
        // Options of the work decide no row.
        let Options { rows, tokens, work: _ } = options;
        let mut identity = Map::new();
        identity.extend(fields_of("rows", rows));
        identity.extend(fields_of("tokens", tokens));
        identity.extend(fields_of("stream", stream));
        Self(Arc::new(identity))
    }

    /// The identity as JSON.
    pub(super) fn to_json(&self) -> Value {
        Value::Object(self.0.as_ref().clone())
    }

    /// The identity without an option of the stream.
    pub(super) fn without(&self, option: &str) -> Self {
        let stream = key_of(&["stream", OPTION], "");
        let is_left_out = |key: &str| key.starts_with(&stream) && option_of(key) == option;
        let others = self.0.iter().filter(|(key, _)| !is_left_out(key));
        Self(Arc::new(others.map(|(key, value)| (key.clone(), value.clone())).collect()))
    }

    /// Whether nothing is known of the run.
    pub(super) fn is_unknown(&self) -> bool {
        self.0.is_empty()
    }

    /// The differences, each with the value in the state and the current value. The folder `dir` may hold the lists of
    /// files, so that files which differ are named.
    pub(super) fn differences(&self, now: &Self, dir: Option<&Path>) -> Vec<String> {
        let names = self.0.keys().chain(now.0.keys().filter(|name| !self.0.contains_key(*name)));
        let null = &Value::Null;
        let mut differences: Vec<String> = names
            .filter_map(|name| {
                let (was, is) = (self.0.get(name).unwrap_or(null), now.0.get(name).unwrap_or(null));
                let brief = |value: &Value| value.to_string().chars().take(40).collect::<String>();
                if was == is {
                    return None;
                }
                let lists = name.starts_with(FILES).then(|| {
                    let kept = |value: &Value| FileList::kept(dir?, value.as_str()?);
                    Some(kept(was)?.differences(&kept(is)?))
                });
                let name = option_of(name);
                Some(match lists.flatten() {
                    Some(files) => format!("`{name}` ({files})"),
                    None => format!("`{name}` ({} in the state, {} here)", brief(was), brief(is)),
                })
            })
            .collect();
        // An option of two groups is named once.
        let mut seen = BTreeSet::new();
        differences.retain(|difference| seen.insert(difference.clone()));
        differences
    }
}

/// The mark of the key of an option.
const OPTION: &str = "option";

/// The key of an option: its groups, from the outermost on, and its name. So options of the same name stay apart.
fn key_of(groups: &[&str], option: &str) -> String {
    [groups, &[option]].concat().join("/")
}

/// The name that a key has in messages: that of an option without its groups.
fn option_of(key: &str) -> &str {
    let is_option = key.split('/').nth(1) == Some(OPTION);
    key.rsplit('/').next().filter(|_| is_option).unwrap_or(key)
}

/// All options of a group by their keys, but for those that may differ.
fn fields_of(group: &str, options: &impl Serialize) -> Map<String, Value> {
    let mut fields = Map::new();
    let options = serde_json::to_value(options).expect("strings and numbers become JSON");
    add_fields(&[group, OPTION], &options, &mut fields);
    fields
}

fn add_fields(groups: &[&str], options: &Value, fields: &mut Map<String, Value>) {
    let Value::Object(options) = options else { return };
    for (name, value) in options {
        match value {
            Value::Object(_) if GROUPS.contains(&&**name) => {
                add_fields(&[groups, &[name]].concat(), value, fields);
            }
            Value::Null => {}
            _ => {
                fields.insert(key_of(groups, name), value.clone());
            }
        }
    }
}

/// The options that hold a group of options.
const GROUPS: [&str; 4] = ["packing", "choice", "numbers", "train_on"];

#[cfg(test)]
mod tests {
    use super::super::may_differ::{MayDiffer, SharesRows};
    use super::*;

    #[test]
    fn an_option_is_part_of_the_identity_unless_its_type_says_that_it_may_differ() {
        #[derive(Serialize)]
        struct Grown {
            shuffle: bool,
            added: Option<u32>,
            packing: Inner,
            rank: MayDiffer<u32, SharesRows>,
        }
        #[derive(Serialize)]
        struct Inner {
            added_too: u32,
        }
        let of = |added, added_too, rank: u32| {
            let packing = Inner { added_too };
            let grown = Grown { shuffle: true, added, packing, rank: rank.into() };
            Identity(Arc::new(fields_of("stream", &grown)))
        };
        let one = of(Some(1), 1, 1);
        assert_eq!(one, of(Some(1), 1, 2));
        for (other, named) in [
            (of(Some(2), 1, 1), "added"),
            (of(None, 1, 1), "added"),
            (of(Some(1), 2, 1), "added_too"),
        ] {
            let differences = one.differences(&other, None).join(", ");
            assert!(differences.starts_with(&format!("`{named}`")), "{differences}");
        }
    }

    #[test]
    fn options_of_the_same_name_in_several_groups_stay_apart() {
        #[derive(Serialize)]
        struct Group {
            shuffle: u32,
            packing: Inner,
        }
        #[derive(Serialize)]
        struct Inner {
            shuffle: u32,
        }
        let of = |numbers: [u32; 4]| {
            let group =
                |[shuffle, inner]: [u32; 2]| Group { shuffle, packing: Inner { shuffle: inner } };
            let mut fields = fields_of("rows", &group([numbers[0], numbers[1]]));
            fields.extend(fields_of("stream", &group([numbers[2], numbers[3]])));
            Identity(Arc::new(fields))
        };
        let one = of([1; 4]);
        for at in 0..4 {
            let mut numbers = [1; 4];
            numbers[at] = 2;
            assert_eq!(one.differences(&of(numbers), None), ["`shuffle` (1 in the state, 2 here)"]);
        }
    }
}
