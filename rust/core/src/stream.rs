//! The endless form: rows while the input is still being read, in constant memory.
//!
//! The stages are those of [`pipeline`](crate::pipeline); rows are always closed without having seen all lengths
//! ([`OpenPacks`]), and documents are given up as soon as no open row needs them.

use std::num::NonZeroUsize;
use std::time::Instant;

use arrow::record_batch::RecordBatch;

use crate::config::{Inputs, Strategy};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::pack::OpenPacks;
use crate::pipeline::{About, BatchSize, Intake, Job, Packing, Rolling};
use crate::report::Report;
use crate::source::{Blocks, discover};

/// How a stream packs.
#[derive(Clone, Copy, Debug)]
pub struct StreamOptions {
    /// Rows a batch holds; the last may hold fewer.
    pub batch_rows: NonZeroUsize,
    /// Rows kept open for `best_fit`.
    pub open_packs: NonZeroUsize,
}

/// Packs `inputs` on the fly and hands over batches as soon as they are full.
///
/// The rows depend on the inputs and the options alone; but for [`Strategy::BestFit`] they are those of
/// [`pack_files`](crate::pipeline::pack_files).
///
/// # Errors
///
/// [`Error::Option`] for a strategy that needs to see all lengths first.
pub fn stream(
    job: &Job,
    inputs: &Inputs,
    options: StreamOptions,
    control: &Control,
    emit: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<Report> {
    job.validate(inputs)?;
    let started = Instant::now();
    let found = discover(inputs, control)?;
    let mut about = About::new(job, &found);
    let packs = &job.options.rows.packing;
    let open = match packs.strategy {
        Strategy::BestFit => Some(OpenPacks::best_fit(packs, options.open_packs)),
        _ => OpenPacks::in_order(packs),
    };
    let Some(open) = open else {
        let reason = format!(
            "is `{}`, but a stream packs by `sequential`, `concat`, `none` or `best_fit`",
            packs.strategy.name()
        );
        return Err(Error::option("strategy", reason));
    };
    let packing = Packing::new(&job.options, job.layout(about.sources.clone())?);
    let batch = BatchSize { rows: options.batch_rows, tokens: u64::MAX };
    let mut rows = Rolling::new(packing, open, batch, 0, control);
    let blocks = Blocks::new(found);
    let seen = Intake::new(job, control).read(blocks, None, |outcome| rows.take(outcome, emit))?;
    about.read(job, seen);
    rows.finish(emit)?.report(about, started)
}
