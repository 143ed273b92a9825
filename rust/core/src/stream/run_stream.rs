//! [`stream`] hands over the tables of a run one after the other, [`count`] counts its rows.

use std::time::Instant;

use arrow::record_batch::RecordBatch;

use super::counts::RowCounts;
use super::lane::caller_blocks::CallerSources;
use super::run_context::{AllReduceMax, RunContext};
use super::state::StreamState;
use super::stream_options::{EndAgreement, StreamOptions};
use crate::config::Inputs;
use crate::error::Result;
use crate::pipeline::Job;
use crate::report::Report;
use crate::source::discover;
use crate::util::control::Control;

/// The inputs of a stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamInputs<'a> {
    pub inputs: &'a Inputs,
    /// The records that the caller gives.
    pub caller_sources: &'a CallerSources,
}

/// Packs `inputs` on the fly and hands over a table for each step, with the state after it in its metadata.
///
/// Starts at the state `from`, or at the beginning. Ranks that end together by asking each other do so by
/// `agree`: it takes a number, and returns the greatest that a rank gave.
///
/// # Errors
///
/// [`Error::Option`](crate::Error::Option) for a strategy that needs all lengths first, for ranks that cannot share the lanes, and
/// for a state of another run.
pub fn stream(
    job: &Job,
    inputs: StreamInputs<'_>,
    options: &StreamOptions,
    from: Option<StreamState>,
    agree: Option<AllReduceMax<'_>>,
    control: &Control,
    emit: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<Report> {
    let StreamInputs { inputs, caller_sources } = inputs;
    job.validate(inputs)?;
    let started = Instant::now();
    let found = discover(inputs, control)?;
    let run = RunContext::new(job, &found, caller_sources, options, from, control)?;
    let end = run.end(agree)?;
    let (report, ()) =
        run.with_lanes(started, |delivery, take| delivery.tables(&end, take, emit))?;
    Ok(report)
}

/// Counts the rows that each lane of a finite stream has. The count is kept in the folder that
/// [`EndAgreement::Counted`] names, if it does, and read from there by the next call of the same run.
///
/// # Errors
///
/// [`Error::Option`](crate::Error::Option) as in [`stream`], and for an endless stream.
pub fn count(
    job: &Job,
    inputs: StreamInputs<'_>,
    options: &StreamOptions,
    control: &Control,
) -> Result<RowCounts> {
    let StreamInputs { inputs, caller_sources } = inputs;
    job.validate(inputs)?;
    let found = discover(inputs, control)?;
    let run = RunContext::new(job, &found, caller_sources, options, None, control)?;
    let dir = match &options.together {
        Some(EndAgreement::Counted(dir)) => Some(dir.as_path()),
        _ => None,
    };
    let counted = run.counted(dir)?;
    let steps = match options.end() {
        Some(end) => counted.steps(end, run.share, 0),
        None => counted.rows.iter().sum::<u64>().div_ceil(run.share.step()),
    };
    Ok(RowCounts { steps, ..counted })
}
