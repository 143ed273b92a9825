//! The output folder of a run: opened, or finished by an earlier run of the same job.

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
use crate::sink::{OpenedJob, OutputFolder, open};
use crate::util::control::Control;
use crate::util::wording::{message, set};

/// Runs `work` in the output folder, unless the job has finished there before.
pub(in crate::pipeline) fn in_folder(
    output: &Output,
    identity: &Arc<Identity>,
    now: NaiveDateTime,
    max_lost: Option<MaxLost>,
    control: &Control,
    work: impl FnOnce(&mut OutputFolder) -> Result<Report>,
) -> Result<Report> {
    let mut opened = match open(output, identity, now, control)? {
        OpenedJob::Ready(opened) => opened,
        OpenedJob::Finished(report) => return finished_report(&report, &output.dir, max_lost),
    };
    match work(&mut opened.folder) {
        Ok(report) => opened.finish(control).map(|()| report),
        Err(error) => {
            opened.fail(&error);
            Err(error)
        }
    }
}

/// The report of a job that has finished in `dir` before, unless more is lost than this call allows.
pub(in crate::pipeline) fn finished_report(
    report: &str,
    dir: &Path,
    max_lost: Option<MaxLost>,
) -> Result<Report> {
    let report = checked_report(report, dir, max_lost)?;
    Ok(Report { finished_before: true, ..report })
}

/// The report of a job that has finished in `dir`, unless more is lost than this call allows.
pub(in crate::pipeline) fn checked_report(
    report: &str,
    dir: &Path,
    max_lost: Option<MaxLost>,
) -> Result<Report> {
    let report = read_report(report, dir)?;
    report.check_max_lost(max_lost)?;
    Ok(report)
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
        built_by: job.built_by.clone(),
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
    let Job { begin, end, special_tokens, .. } = job;
    let finds_classes = job.finds_classes && job.options.tokens.documents.is_classified();
    let tokens = json!([begin, end, special_tokens, finds_classes]).to_string();
    blake3::hash(tokens.as_bytes()).to_hex()[..16].to_owned()
}
