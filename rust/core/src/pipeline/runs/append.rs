//! [`append_dir`]: further files for a finished folder, of whose files no token is made again.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::content::ContentHashes;
use super::dir::{pack_dir, prepare, state};
use super::folder::{in_folder, read_report};
use super::repack::{damaged, take_blocks};
use crate::assemble::NumberedFiles;
use crate::config::identity::{FileState, Identity, JobInputs};
use crate::config::{Inputs, Output};
use crate::document::store::{Log, Store};
use crate::error::{Error, Result};
use crate::pipeline::accounts::about::About;
use crate::pipeline::documents::intake::{Intake, Outcome, PartOfJob};
use crate::pipeline::documents::recognise::FileKinds;
use crate::pipeline::job::{Job, JobTemplate};
use crate::pipeline::rows::packer::SinkPacker;
use crate::pipeline::rows::packing::Packing;
use crate::report::listed_path::ListedPath;
use crate::report::{AppendedFiles, Report};
use crate::sink::{Folder, KeptTokens, TokensFile, exchange_output, kept, remove_output};
use crate::source::{Blocks, FoundFiles};
use crate::util::control::Control;
use crate::util::message::ShownPath;

/// The ending of the folder in which the new output is made, beside the old one.
const BESIDE: &str = ".append";

/// Packs the files of a finished folder and further files into it, as [`pack_dir`] packs all of them, the old ones first.
///
/// The tokens of the old files are those that the folder keeps. The new output is made in a folder beside it, and takes its place
/// when it is whole; until then the folder stays as it is. A stopped call is resumed by the next. A folder that is not there yet is
/// packed.
///
/// Fails with [`Error::Output`] if the folder keeps no tokens, or is of a job with other options, and with [`Error::Option`] if a
/// file has changed since it was packed.
pub fn append_dir(
    mut job: Job,
    inputs: &Inputs,
    output: &Output,
    control: &Control,
) -> Result<Report> {
    let output = Output { keep_tokens: true, ..output.clone() };
    refuse(&job, inputs, &output)?;
    let Some(beside) = folder_beside(&output.dir) else {
        return Err(refused("needs a folder that is not the root of the disk"));
    };
    if output.dir.symlink_metadata().is_err() {
        return pack_dir(job, inputs, &output, None, control);
    }
    let kept = kept(&output.dir)?;
    let (found, output, identity) = prepare(&job, inputs, &output, control)?;
    if output.cannot_resume {
        let reason =
            "needs functions and files that are recognised; give each function a `fingerprint`";
        return Err(refused(reason));
    }
    let same = Identity { inputs: kept.job.inputs.clone(), ..identity.clone() };
    if let Some(differences) = kept.job.differences(&same) {
        let reason = format!(
            "holds the output of a job that differs in {differences}, so no file can be appended"
        );
        return Err(Error::output(&output.dir, reason));
    }
    let (new, all) = sort_out(&kept.job, found)?;
    if new.files.is_empty() {
        remove_output(&beside, None, control)?;
        let report = read_report(&kept.report, &output.dir)?;
        return Ok(Report { appended: Some(AppendedFiles::default()), ..report });
    }
    let identity = Identity { inputs: JobInputs::Files(all), ..identity };
    let files = identity.files();
    // It holds a stopped append, or the output that the last append has replaced.
    let made = Output { dir: beside.clone(), overwrite: true, shared: true, ..output.clone() };
    let limits = (job.options.now(), job.options.work.max_lost);
    let report = in_folder(&made, &Arc::new(identity), limits, control, |folder| {
        if let JobTemplate::Ready(template) = &mut job.template {
            template.set_now(folder.now());
        }
        pack_both(folder, &job, (&kept, new, files), &output, control)
    })?;
    exchange_output(&output.dir, &beside, &kept, output.wait, control)?;
    remove_output(&beside, Some(&output.dir), control)?;
    Ok(report)
}

/// Refuses jobs whose files are not read one after another, each once.
fn refuse(job: &Job, inputs: &Inputs, output: &Output) -> Result<()> {
    let [source] = &inputs.sources[..] else {
        return Err(refused("takes one source; name one in `files`"));
    };
    if output.remote.is_some() {
        return Err(refused("needs a folder of the local disk as `output`"));
    }
    let given = [
        ("format.per_file", output.per_file),
        ("groups", output.group_bytes.is_some()),
        ("limit", source.limit.is_some()),
        ("repeat", source.repeat.get() > 1),
        ("fraction", job.options.rows.shares.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((option, _)) => {
            Err(refused(format!("cannot go with `{option}`; leave one of them out")))
        }
        None => Ok(()),
    }
}

/// The error of an append that is refused.
fn refused(reason: impl Display) -> Error {
    Error::option("exists", format!("is `append`, which {reason}"))
}

/// The folder beside an output in which files are appended to it.
fn folder_beside(dir: &Path) -> Option<PathBuf> {
    let mut name = dir.file_name()?.to_owned();
    name.push(BESIDE);
    Some(dir.with_file_name(name))
}

/// The files that are not of the job yet, and the states of all: those of the job first.
///
/// Fails for a file of the job that has changed.
fn sort_out(
    before: &Identity,
    found: FoundFiles,
) -> Result<(FoundFiles, BTreeMap<ListedPath, FileState>)> {
    let JobInputs::Files(known) = &before.inputs else {
        return Err(refused("takes files; the folder was packed from records in memory"));
    };
    let mut all = known.clone();
    let mut new = Vec::new();
    for file in found.files {
        let path = ListedPath::from(&file.path);
        let now = FileState { place: all.len() as u64, ..state(&file) };
        match known.get(&path) {
            Some(before) if *before == (FileState { place: before.place, ..now.clone() }) => {}
            Some(_) => {
                let reason = format!(
                    "cannot take `{}`, which has changed since it was packed; put what is new into a file of its own, or pack \
                     all files again",
                    ShownPath(&file.path)
                );
                return Err(refused(reason));
            }
            None => {
                all.insert(path, now);
                new.push(file);
            }
        }
    }
    Ok((FoundFiles { files: new, ..found }, all))
}

/// Packs the kept tokens of the old files and the new files into a folder.
fn pack_both(
    folder: &mut Folder,
    job: &Job,
    (kept, new, files): (&KeptTokens, FoundFiles, Vec<Arc<Path>>),
    output: &Output,
    control: &Control,
) -> Result<Report> {
    let started = Instant::now();
    let log = Arc::new(Log::open(&folder.blocks())?);
    let mut content = ContentHashes::default();
    let mut blocks = 0;
    let mut consumed = |outcome: &Outcome| {
        content.add(outcome);
        blocks += 1;
    };
    let before = read_report(&kept.report, &output.dir)?;
    let mut about = About::new(job, &new);
    let appended = AppendedFiles { files: about.facts.files, bytes: about.facts.bytes };
    about.sources = NumberedFiles::new(files);
    about.facts.files += before.facts.files;
    about.facts.bytes += before.facts.bytes;
    let layout = job.file_layout(about.sources.clone(), output.coding.layout)?;
    let store = Store::over(Arc::clone(&log), output.memory);
    let packing = Packing::with_store(&job.options, layout, store);
    let packer =
        SinkPacker::new(packing.with_validation(output.validation)?, folder, control, started);
    let mut packer = take_old(kept, &log, packer, &mut consumed, job, control)?;
    let part =
        PartOfJob { before: before.facts.bytes, all: about.facts.bytes, first_block: kept.blocks };
    let intake = Intake::new(job, control).of_job(part).hashing(output.hashes_content());
    let seen = intake.read(Blocks::new(new), Some(&log), |outcome| {
        consumed(&outcome);
        packer.take(outcome)
    })?;
    let mut kinds = FileKinds::of(before.facts.inputs);
    kinds.merge(seen);
    about.read(job, kinds);
    let report = Report { appended: Some(appended), ..packer.finish(about)? };
    let (bytes, blake3) = log.finish()?;
    let tokens = TokensFile { bytes, blocks, blake3 };
    folder.finish(&report.to_json(), content.into_hashes(), Some(tokens))?;
    Ok(report)
}

/// Gives the kept blocks to `packer`, and copies to the log of the new output those that are not there yet.
fn take_old<'a>(
    kept: &KeptTokens,
    log: &Log,
    packer: SinkPacker<'a>,
    consumed: &mut dyn FnMut(&Outcome),
    job: &Job,
    control: &Control,
) -> Result<SinkPacker<'a>> {
    let old = Log::open_finished(&kept.tokens)?;
    let there: HashSet<u64> = old.found().collect();
    if there.len() as u64 != kept.blocks || !(0..kept.blocks).all(|it| there.contains(&it)) {
        return Err(damaged(kept));
    }
    let entry = |number| {
        if let Some(copied) = log.entry(number, None)? {
            return Ok(copied);
        }
        let (entry, _) = old.entry(number, None)?.ok_or_else(|| damaged(kept))?;
        let place = log.append(number, &entry.fingerprint, &entry.documents, &entry.ledger)?;
        Ok((entry, place))
    };
    take_blocks(0..kept.blocks, &entry, packer, consumed, &job.options, control)
}
