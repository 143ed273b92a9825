//! [`repack`]: tokens that a job kept, packed again without tokenizing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;

use super::dir::{in_folder, read_report};
use super::packer::Packer;
use super::{About, Outcome, Packing};
use crate::assemble::{Layout, Sources};
use crate::config::{Options, Output, Overlong, Validation};
use crate::control::{Control, Phase};
use crate::error::{Error, Result};
use crate::ordered::ordered;
use crate::report::Report;
use crate::sink::{Kept, Sink, kept};
use crate::store::{Log, Store};
use crate::timing::Work;

/// Packs what [`pack_dir`](super::pack_dir) kept in the folder `source` into files in `output.dir`.
///
/// Whole documents were kept, so those that were dropped for their length are packed where they fit. Runs again, and
/// goes on where it was stopped, as `pack_dir` does.
///
/// # Panics
///
/// If a folder says that it holds more rows than fit into the address space.
pub fn repack(
    options: &Options,
    source: &Path,
    output: &Output,
    control: &Control,
) -> Result<Report> {
    options.validate()?;
    output.validate(&options.columns)?;
    let kept = kept(source)?;
    if options.packing.overlong == Some(Overlong::Trim) && kept.job["options"]["overlong"] != "trim"
    {
        let reason =
            "is \"trim\", but the tokens were kept without the ends of turns; keep them with it";
        return Err(Error::option("overlong", reason));
    }
    let set_aside = &kept.job["output"]["validation"];
    if output.validation.is_none() && !set_aside.is_null() {
        let reason = format!(
            "must be given: the tokens are those of a job with validation={set_aside}, and would all be trained on"
        );
        return Err(Error::option("validation", reason));
    }
    if same_folder(source, &output.dir) {
        let reason = "holds the tokens that are packed; write to a folder of its own".to_owned();
        return Err(Error::Output { path: output.dir.clone(), reason });
    }
    let identity = json!({
        "fastpack": env!("CARGO_PKG_VERSION"),
        "tokens": blake3::hash(kept.job.to_string().as_bytes()).to_hex().to_string(),
        "options": options,
        "output": output,
    });
    let about = About::of(read_report(&kept.report, source)?, sources(&kept));
    in_folder(output, &identity, (options.now.time(), options.max_lost), control, |folder| {
        let started = Instant::now();
        let id = |name: &str| kept.job[name].as_u64().and_then(|id| u32::try_from(id).ok());
        let layout = Layout::new(options, id("pad_id").or(id("eos_id")), about.sources.clone())?;
        let log = Arc::new(Log::open_finished(&kept.tokens)?);
        let store = Store::over(Arc::clone(&log), output.memory);
        let packing = Packing::with_store(options, layout, store);
        let packing = packing.with_validation(output.validation);
        let packer = Packer::new(packing, folder, control, started);
        let report = take_all(&kept, &log, packer, options, control)?.finish(about)?;
        folder.finish(&report.to_json(), BTreeMap::new(), None)?;
        Ok(report)
    })
}

/// Packs tokens that were kept into `sink`.
pub(super) fn pack_kept(
    kept: &Kept,
    options: &Options,
    (about, layout, validation): (About, Layout, Option<Validation>),
    control: &Control,
    sink: &mut dyn Sink,
) -> Result<Report> {
    let started = Instant::now();
    let log = Log::open_finished(&kept.tokens)?;
    let packing = Packing::new(options, layout).with_validation(validation);
    let packer = Packer::new(packing, sink, control, started);
    take_all(kept, &log, packer, options, control)?.finish(about)
}

/// Gives all blocks of the log to `packer`, in the order of the input.
fn take_all<'a>(
    kept: &Kept,
    log: &Log,
    mut packer: Packer<'a>,
    options: &Options,
    control: &Control,
) -> Result<Packer<'a>> {
    control.enter(Phase::Tokenize);
    let mut numbers = 0..kept.blocks;
    let next = || {
        control.tick()?;
        Ok(numbers.next())
    };
    let worker = || {
        |number: u64| {
            let Some((entry, place)) = log.entry(number, None)? else {
                let reason = "is damaged; pack the files again".to_owned();
                return Err(Error::Output { path: kept.tokens.clone(), reason });
            };
            let read = entry.ledger.read;
            control.count_block(0, read.documents, read.tokens);
            Ok(Outcome {
                documents: entry.documents,
                ledger: entry.ledger,
                work: Work::default(),
                place: Some(place),
                fingerprint: None,
                share: None,
                left_out: Vec::new(),
                end: None,
            })
        }
    };
    ordered(options.threads, next, worker, |outcome| packer.take(outcome))?;
    Ok(packer)
}

/// The files that the tokens were made of, in their order.
fn sources(kept: &Kept) -> Sources {
    let inputs = kept.job["inputs"].as_object().into_iter().flatten();
    let mut paths: Vec<_> = inputs.map(|(path, state)| (state["place"].as_u64(), path)).collect();
    paths.sort_unstable();
    Sources::new(paths.into_iter().map(|(_, path)| Arc::from(Path::new(path))))
}

fn same_folder(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}
