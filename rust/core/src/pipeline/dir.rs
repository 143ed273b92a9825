//! [`pack_dir`]: a job that goes on from wherever it was stopped.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use chrono::NaiveDateTime;
use serde_json::json;

use super::per_file::pack_each;
use super::split::{self, Draw};
use super::{About, Intake, Job, JobTemplate, Outcome, Packing};
use crate::config::{Inputs, MaxLost, Output};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::report::Report;
use crate::sink::{Folder, Opened, Tokens, open};
use crate::source::{Blocks, Found, SourceFile, discover};
use crate::store::{Log, Store};

/// Packs all of `inputs` into files in `output.dir`.
///
/// A folder in which the very job has finished before is left as it is, and its report returned; where it was begun
/// and did not end, this goes on from there.
pub fn pack_dir(
    mut job: Job,
    inputs: &Inputs,
    output: &Output,
    control: &Control,
) -> Result<Report> {
    job.validate(inputs)?;
    output.validate(&job.options.columns)?;
    let found = discover(inputs)?;
    refuse_own_inputs(&found.files, output)?;
    let identity = identity(&job, &found, output);
    let now = job.options.now.time();
    let max_lost = job.options.max_lost;
    in_folder(output, &identity, (now, max_lost), control, |folder| {
        if let JobTemplate::Ready(template) = &mut job.template {
            template.set_now(folder.now());
        }
        pack_into(folder, &job, found, output, control)
    })
}

/// Runs `work` in the output folder, unless the job has finished there before.
pub(super) fn in_folder(
    output: &Output,
    identity: &serde_json::Value,
    (now, max_lost): (NaiveDateTime, Option<MaxLost>),
    control: &Control,
    work: impl FnOnce(&mut Folder) -> Result<Report>,
) -> Result<Report> {
    let mut folder = match open(output, identity, now, control)? {
        Opened::Ready(folder) => folder,
        Opened::Finished(report) => {
            let report = read_report(&report, &output.dir)?;
            report.allow(max_lost)?;
            return Ok(report);
        }
    };
    work(&mut folder).inspect_err(|error| folder.fail(error))
}

/// A report as it was written into `dir`.
pub(super) fn read_report(report: &str, dir: &Path) -> Result<Report> {
    serde_json::from_str(report).map_err(|error| Error::Output {
        path: dir.to_owned(),
        reason: format!("its report cannot be read ({error}); `overwrite=True` packs again"),
    })
}

/// Packs `found` into a folder, from wherever the last run of the job got to.
fn pack_into(
    folder: &mut Folder,
    job: &Job,
    found: Found,
    output: &Output,
    control: &Control,
) -> Result<Report> {
    let started = Instant::now();
    let log = Arc::new(Log::open(&folder.blocks())?);
    let mut content = Content::default();
    let mut blocks = 0;
    let mut consumed = |outcome: &Outcome| {
        content.add(outcome);
        blocks += 1;
    };
    let report = if output.per_file {
        pack_each(job, found, folder, (&log, output.memory), &mut consumed, control)?
    } else {
        let mut about = About::new(job, &found);
        let store = Store::over(Arc::clone(&log), output.memory);
        let layout = job.layout(about.sources.clone())?;
        let mut packing = Packing::with_store(&job.options, layout, store);
        let seed = job.options.packing.seed;
        packing.draw = output.validation.map(|it| Draw::new(it, seed, &about.sources));
        let reader = Intake::new(job, control);
        about.inputs = reader.read(Blocks::new(found), Some(&log), |outcome| {
            consumed(&outcome);
            packing.gather(outcome)
        })?;
        about.rendered(job);
        split::pack_into(packing, folder, about, control, started)?
    };
    let tokens = output
        .keep_tokens
        .then(|| log.finish().map(|bytes| Tokens { bytes, blocks }))
        .transpose()?;
    folder.finish(&report.to_json(), content.into_hashes(), tokens)?;
    Ok(report)
}

/// Hashes of what the files of a run hold, made as their blocks are read.
#[derive(Default)]
struct Content(BTreeMap<String, blake3::Hasher>);

impl Content {
    /// Adds a block. Blocks come in the order of the input.
    fn add(&mut self, outcome: &Outcome) {
        let path = outcome.documents.path().to_string_lossy();
        if !self.0.contains_key(&*path) {
            self.0.insert(path.clone().into_owned(), blake3::Hasher::new());
        }
        if let (Some(hasher), Some(block)) = (self.0.get_mut(&*path), &outcome.fingerprint) {
            hasher.update(block.as_bytes());
        }
    }

    fn into_hashes(self) -> BTreeMap<String, String> {
        let hex = |hasher: blake3::Hasher| hasher.finalize().to_hex().to_string();
        self.0.into_iter().map(|(path, hasher)| (path, hex(hasher))).collect()
    }
}

/// Refuses to write where an input lies: a shard might take its place.
fn refuse_own_inputs(files: &[SourceFile], output: &Output) -> Result<()> {
    let Ok(dir) = output.dir.canonicalize() else { return Ok(()) };
    let inside =
        files.iter().find(|file| file.path.canonicalize().is_ok_and(|path| path.starts_with(&dir)));
    inside.map_or(Ok(()), |file| {
        let reason =
            format!("holds the input `{}`; write to a folder of its own", file.path.display());
        Err(Error::Output { path: output.dir.clone(), reason })
    })
}

/// What makes a job the same as another: all that decides its output, and the state of its inputs.
fn identity(job: &Job, found: &Found, output: &Output) -> serde_json::Value {
    let files: serde_json::Map<String, serde_json::Value> = (0..)
        .zip(&found.files)
        .map(|(place, file): (u64, _)| {
            let state = json!({
                "place": place,
                "size": file.size,
                "modified": file.modified.to_string(),
                "source": file.source,
            });
            (file.path.to_string_lossy().into_owned(), state)
        })
        .collect();
    identified(
        job,
        json!({
            "inputs": files,
            "sources": sources(found),
            "options": job.options,
            "output": output,
        }),
    )
}

/// Adds to an identity what turns records into tokens.
pub(super) fn identified(job: &Job, mut identity: serde_json::Value) -> serde_json::Value {
    let template = match &job.template {
        JobTemplate::Ready(template) => Some(template.fingerprint()),
        JobTemplate::Refused(_) => None,
    };
    let parts = [
        ("fastpack", json!(env!("CARGO_PKG_VERSION"))),
        ("tokenizer", json!(job.tokenizer.fingerprint())),
        ("bos_id", json!(job.bos_id)),
        ("eos_id", json!(job.eos_id)),
        ("pad_id", json!(job.pad_id)),
        ("template", json!(template)),
        ("transform", json!(job.transform.identity)),
    ];
    for (name, part) in parts {
        identity[name] = part;
    }
    identity
}

/// How the records of each source are read, and how many of them.
pub(super) fn sources(found: &Found) -> Vec<serde_json::Value> {
    let sources = found.sources.iter();
    let told = sources.map(
        |source| json!({"reading": source.reading, "limit": source.limit, "repeat": source.repeat}),
    );
    told.collect()
}
