//! [`of_run`]: the options and inputs that decide the rows of a run.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::file_list::{FileList, short};
use crate::config::Options;
use crate::config::identity::{Identity, JobInputs, ReadAs};
use crate::error::Result;
use crate::pipeline::{Job, made_by};
use crate::source::FoundFiles;
use crate::stream::stream_options::StreamOptions;
use crate::util::control::Control;

/// The prefix of the name of a source where an identity names its files.
const FILES: &str = "source ";

/// The identity of a stream of `found`.
pub(crate) fn of_run(
    job: &Job,
    found: &FoundFiles,
    stream: &StreamOptions,
    control: &Control,
) -> Result<Identity> {
    let mut inputs = BTreeMap::new();
    for (number, source) in found.sources.iter().enumerate() {
        let name = stream.name(number);
        if let Some(records) = &source.records {
            let known = records.known_as.as_ref().unwrap_or(&records.kind);
            inputs.insert(format!("records of {name}"), known.clone());
        } else {
            let files = found.files.iter().filter(|file| file.source == number);
            let list = FileList::of(files, control)?;
            if let Some(dir) = stream.index_dir() {
                list.keep(dir)?;
            }
            inputs.insert(format!("{FILES}{name}"), list.hash());
        }
    }
    let mut made_by = made_by(job);
    // Fingerprints are texts of any length. That a function has none is said as it is: nobody can tell whether it is the same.
    if job.transform.is_identified() {
        let hash = |functions: &String| blake3::hash(functions.as_bytes()).to_hex();
        made_by.transform = made_by.transform.as_ref().map(|it| short(&hash(it)).to_owned());
    }
    Ok(Identity {
        inputs: JobInputs::Streamed(inputs),
        sources: found.sources.iter().map(ReadAs::from).collect(),
        made_by: Some(made_by),
        ..of_options(&job.options, stream)
    })
}

/// The part of an identity that is known before anything is read.
pub(crate) fn of_options(options: &Options, stream: &StreamOptions) -> Identity {
    // Options of the work decide no row.
    let Options { rows, tokens, work: _ } = options;
    Identity {
        fastpack: String::new(),
        inputs: JobInputs::Streamed(BTreeMap::new()),
        sources: Vec::new(),
        made_by: None,
        row_options: Some(rows.clone()),
        token_options: tokens.clone(),
        output: None,
        stream_options: Some(Identity::stream_options(stream)),
        run: None,
        appended_to: None,
    }
}

/// The differences of a state's identity. The folder `dir` may hold the lists of files, so that files which differ are named.
pub(crate) fn differences(was: &Identity, now: &Identity, dir: Option<&Path>) -> Option<String> {
    let kept = |list: &Value| FileList::kept(dir?, list.as_str()?);
    was.differences_by(now, "in the state", &|name, was, now| {
        name.starts_with(FILES).then(|| Some(kept(was)?.differences(&kept(now)?))).flatten()
    })
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;

    #[test]
    fn an_option_that_streams_gain_is_part_of_the_identity_unless_serde_skips_it() {
        #[derive(Serialize)]
        struct Grown {
            shuffle: bool,
            added: Option<u32>,
            #[serde(skip)]
            _skipped: u32,
        }
        let of = |added, skipped| {
            Identity::stream_options(&Grown { shuffle: true, added, _skipped: skipped })
        };
        let one = of(Some(1), 1);
        assert_eq!(one, of(Some(1), 2));
        assert_ne!(one, of(Some(2), 1));
        assert_ne!(one, of(None, 1));
    }
}
