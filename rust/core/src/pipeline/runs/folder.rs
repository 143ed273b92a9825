//! The output folder of a run: opened, or finished by an earlier run of the same job.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use chrono::NaiveDateTime;
use fastpack_tokenize::Tokenizer;
use serde_json::json;

use crate::config::identity::{Identity, MadeBy};
use crate::config::{MaxLost, Output};
use crate::error::{Error, Result};
use crate::pipeline::job::{Job, JobTemplate};
use crate::report::Report;
use crate::sink::{BucketOpened, Folder, Opened, Uploads, open, open_bucket};
use crate::util::control::Control;
use crate::util::wording::{message, set};

/// Runs `work` in the output folder, unless the job has finished there before.
pub(in crate::pipeline) fn in_folder(
    output: &Output,
    identity: &Arc<Identity>,
    (now, max_lost): (NaiveDateTime, Option<MaxLost>),
    control: &Control,
    work: impl FnOnce(&mut Folder) -> Result<Report>,
) -> Result<Report> {
    in_bucket(output, identity, max_lost, control, |local, uploads| {
        in_local_folder(local, uploads, identity, (now, max_lost), control, work)
    })
}

/// Runs `work` with an output folder of the local disk. If the output is in a bucket, its shards are uploaded meanwhile, and the rest
/// afterwards, unless the job has finished there before.
fn in_bucket(
    output: &Output,
    identity: &Arc<Identity>,
    max_lost: Option<MaxLost>,
    control: &Control,
    work: impl FnOnce(&Output, Option<Arc<Uploads>>) -> Result<Report>,
) -> Result<Report> {
    let Some(remote) = &output.remote else { return work(output, None) };
    match open_bucket((output, remote), identity, control)? {
        BucketOpened::Ready(mut bucket) => {
            let uploads = bucket.uploads(identity);
            match work(bucket.local(), uploads) {
                Ok(report) => {
                    bucket.finish(&HashMap::new(), control)?;
                    Ok(report)
                }
                Err(error) => {
                    bucket.give_up(&error);
                    Err(error)
                }
            }
        }
        BucketOpened::Finished(report) => {
            let report = read_report(&report, &output.dir)?;
            report.allow(max_lost)?;
            Ok(report)
        }
    }
}

/// Runs `work` in an output folder of the local disk, unless the job has finished there before.
fn in_local_folder(
    output: &Output,
    uploads: Option<Arc<Uploads>>,
    identity: &Arc<Identity>,
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
    if let Some(uploads) = uploads {
        folder.upload_to(uploads);
    }
    work(&mut folder).inspect_err(|error| folder.fail(error))
}

/// The report in `dir`, parsed.
pub(in crate::pipeline) fn read_report(report: &str, dir: &Path) -> Result<Report> {
    serde_json::from_str(report).map_err(|error| {
        let fault = format!("its report cannot be read ({error}); ");
        Error::output(dir, message![fault, set("exists", "overwrite"), " packs again"])
    })
}

/// The tokenizer, template and functions that make the tokens of a job.
pub(crate) fn made_by(job: &Job) -> MadeBy {
    let template = match &job.template {
        JobTemplate::Ready(template) => Some(template.fingerprint()),
        JobTemplate::Refused(_) => None,
    };
    MadeBy {
        tokenizer: job.tokenizer.as_ref().map(Tokenizer::fingerprint).map(str::to_owned),
        bos_id: job.bos_id,
        eos_id: job.eos_id,
        pad_id: job.pad_id,
        special_tokens: Some(special_tokens(job)),
        largest_id: None,
        template,
        transform: job.transform.identity.clone(),
        trims: job.options.rows.trims(),
        time: None,
    }
}

/// A hash of the named special tokens of a job.
fn special_tokens(job: &Job) -> String {
    let Job { begin, end, special_tokens, finds_classes, .. } = job;
    let tokens = json!([begin, end, special_tokens, finds_classes]).to_string();
    blake3::hash(tokens.as_bytes()).to_hex()[..16].to_owned()
}
