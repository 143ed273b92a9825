//! [`pack`]: packs the groups of a job, which several processes may share.

use std::num::{NonZeroU32, NonZeroU64};
use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::gather::gather;
use super::group::{GroupStep, GroupedJob, HashedFiles};
use super::group_inputs::{cut, sized};
use super::group_result::GroupRecord;
use crate::config::identity::Identity;
use crate::config::{Output, RowOrder, StartingGroups};
use crate::document::INPUTS;
use crate::error::{Error, Result};
use crate::pipeline::documents::validation_split::SplitThreshold;
use crate::pipeline::job::{Job, JobTemplate};
use crate::pipeline::runs::output_folder::{checked_report, finished_report};
use crate::pipeline::statistics::input_facts::InputFacts;
use crate::report::Report;
use crate::sink::{self, Groups, JobState, OpenedJob};
use crate::source::FoundFiles;
use crate::util::control::Control;
use crate::util::wording::{message, set};

/// The shortest and the longest wait of a process before it looks again for free groups.
const WAITS: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];

/// The interval at which a waiting process checks for a cancel.
const TICK: Duration = Duration::from_millis(20);

/// The number of times that groups are packed again which have changed before the output was put together.
const ATTEMPTS: usize = 10;

/// The output of a job that is packed in groups.
#[derive(Clone, Copy)]
pub(in crate::pipeline) struct GroupedOutput<'a> {
    pub(in crate::pipeline) output: &'a Output,
    /// The most bytes of the files of a group.
    pub(in crate::pipeline) group_bytes: NonZeroU64,
}

/// Packs the groups of a job, and puts the output together once all of them are packed.
///
/// Several processes may call this at a time: each begins with the groups of its turn, and then takes those that
/// nobody works on. Each waits for the others unless it must not wait; the last one puts the output together.
pub(in crate::pipeline) fn pack(
    job: &mut Job,
    found: &FoundFiles,
    output: GroupedOutput<'_>,
    identity: &Arc<Identity>,
    control: &Control,
) -> Result<Report> {
    let GroupedOutput { output, group_bytes } = output;
    refuse_objective(job, output)?;
    let shared = output.shared || output.turn.is_some_and(StartingGroups::is_shared);
    let output = &Output { shared, ..output.clone() };
    for _ in 0..ATTEMPTS {
        let groups = match join(job, output, identity, control)? {
            OpenedJob::Ready(groups) => groups,
            OpenedJob::Finished(report) => {
                return finished_report(&report, &output.dir, job.options.work.max_lost);
            }
        };
        let grouped = GroupedJob::new(job, found, output, identity, group_bytes);
        let is_done = work_on_all(&grouped, &groups, control)?;
        let report = (!output.wait).then(|| so_far(&grouped, &groups, control)).transpose()?;
        let left = groups.released();
        // Another process may have packed the last group meanwhile, and have left the rest to this one.
        if let Some(report) = report.as_ref()
            && !is_done
            && !grouped.are_done(&left)?
        {
            return Ok(report.clone());
        }
        match (left.gather(control), report) {
            (Err(Error::Busy { .. }), Some(report)) => return Ok(report),
            (Err(error), _) => return Err(error),
            (Ok(JobState::Finished(report)), _) => {
                left.tidy(control);
                return checked_report(&report, &output.dir, job.options.work.max_lost);
            }
            (Ok(JobState::Absent), _) => {}
            (Ok(JobState::Underway(mut together)), _) => {
                if let Some(report) = gather(&grouped, &left, &mut together.folder, control)? {
                    together.finish(control)?;
                    left.tidy(control);
                    return Ok(report);
                }
            }
        }
    }
    let reason = "its groups change after they were packed, again and again; see whether the disk or another program damages files";
    Err(Error::output(&output.dir, reason))
}

/// Takes one group through one step. Returns its report.
pub(in crate::pipeline) fn pack_one(
    job: &mut Job,
    found: &FoundFiles,
    output: GroupedOutput<'_>,
    identity: Identity,
    group: u64,
    step: usize,
    control: &Control,
) -> Result<Report> {
    let GroupedOutput { output, group_bytes } = output;
    refuse_objective(job, output)?;
    let output = &Output { shared: true, ..output.clone() };
    let identity = Arc::new(identity);
    let groups = match join(job, output, &identity, control)? {
        OpenedJob::Ready(groups) => groups,
        OpenedJob::Finished(report) => {
            return finished_report(&report, &output.dir, job.options.work.max_lost);
        }
    };
    let grouped = GroupedJob::new(job, found, output, &identity, group_bytes);
    let step = GroupStep::of(output.validation).get(step).copied();
    let place = usize::try_from(group).ok().filter(|&place| place < grouped.len());
    let (Some(place), Some(step)) = (place, step) else {
        let reason = format!("is {group}, but the job has {} groups", grouped.len());
        return Err(Error::option("group", reason));
    };
    control.expect_bytes(grouped.all_bytes());
    let threshold =
        if step == GroupStep::Rows { grouped.threshold(&groups, control)? } else { None };
    groups.refresh()?;
    loop {
        match grouped.work(&groups, place, step, threshold, control) {
            // The process that held it before may still be ending.
            Err(Error::Busy { .. }) if output.wait => pause(WAITS[1], control)?,
            Err(error) => {
                if !matches!(error, Error::Cancelled | Error::Busy { .. }) {
                    groups.fail(group, &error);
                }
                return Err(error);
            }
            Ok(()) => break,
        }
    }
    groups.forgive(group);
    let (report, _) = report_of(&grouped, &groups, step, place..place + 1, control)?;
    groups.tidy(control);
    Ok(report)
}

/// The bytes of each group, and the names of the steps.
pub(in crate::pipeline) fn listed(
    found: &FoundFiles,
    output: &Output,
    most: NonZeroU64,
) -> (Vec<u64>, Vec<&'static str>) {
    let files = sized(found);
    let bytes = |group: Range<usize>| {
        files[group].iter().map(|file| file.bytes).fold(0, u64::saturating_add)
    };
    let steps = GroupStep::of(output.validation).iter().map(|step| step.name());
    (cut(&files, most).into_iter().map(bytes).collect(), steps.collect())
}

/// Refuses an objective that reads more of a document than its tokens, where groups share rows in the end.
fn refuse_objective(job: &Job, output: &Output) -> Result<()> {
    if output.validation.is_some() && job.options.rows.copies > NonZeroU32::MIN {
        let reason = "is given beside `objective.copies`; leave one of them out";
        return Err(Error::option("validation", reason));
    }
    let is_balanced = job.options.rows.packing.order() == RowOrder::Balanced;
    if is_balanced && job.options.rows.copies > NonZeroU32::MIN {
        let reason = message![
            "cannot be given with ",
            set("order", "balanced"),
            " and `objective.copies`; leave one of them out",
        ];
        return Err(Error::option("groups.size", reason));
    }
    if is_balanced && job.objective()?.reads() != [INPUTS] {
        let reason = message![
            "cannot be given with ",
            set("order", "balanced"),
            " for this objective; leave one of them out",
        ];
        return Err(Error::option("groups.size", reason));
    }
    Ok(())
}

/// Joins the processes that pack the groups of a job. Templates see the time at which the first of them began.
fn join(
    job: &mut Job,
    output: &Output,
    identity: &Arc<Identity>,
    control: &Control,
) -> Result<OpenedJob<Groups>> {
    let joined = sink::join(output, identity, job.options.now(), control)?;
    if let (OpenedJob::Ready(groups), JobTemplate::Ready(template)) = (&joined, &mut job.template) {
        template.set_now(groups.now());
    }
    Ok(joined)
}

/// Takes all groups through all steps. Returns false if others still work on some, and this process must not wait.
fn work_on_all(job: &GroupedJob<'_>, groups: &Groups, control: &Control) -> Result<bool> {
    control.expect_bytes(job.all_bytes());
    let mut threshold = None;
    for &step in GroupStep::of(job.output.validation) {
        if step == GroupStep::Rows {
            threshold = job.threshold(groups, control)?;
        }
        if !work_on(job, groups, step, threshold, control)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Takes all groups through a step. Returns false if others still work on some, and this process must not wait.
fn work_on(
    job: &GroupedJob<'_>,
    groups: &Groups,
    step: GroupStep,
    threshold: Option<SplitThreshold>,
    control: &Control,
) -> Result<bool> {
    let turn = job.output.turn;
    let (mut left, others): (Vec<usize>, Vec<usize>) =
        (0..job.len()).partition(|&group| turn.is_none_or(|turn| turn.includes(group)));
    // Behind its own turn, each process begins at another place.
    let first = turn.map_or(0, |turn| others.partition_point(|&it| it < turn.rank() as usize));
    left.extend(others.iter().cycle().skip(first).take(others.len()));
    let own = job.len() - others.len();
    let mut wait = WAITS[0];
    let mut is_first = true;
    loop {
        let before = left.len();
        let mut rest = Vec::new();
        for (place, group) in left.into_iter().enumerate() {
            control.tick()?;
            if groups.refresh()? {
                return Ok(false);
            }
            let number = group as u64;
            if groups.is_done(number, step.name()) {
                control.count_block(job.bytes(group), 0, 0);
                continue;
            }
            let is_own = is_first && place < own;
            if !is_own && !groups.has_locks() && turn.is_some_and(|turn| !turn.includes(group)) {
                rest.push(group);
                continue;
            }
            match job.work(groups, group, step, threshold, control) {
                Ok(()) => groups.forgive(number),
                Err(Error::Busy { .. }) => rest.push(group),
                Err(Error::Cancelled) => return Err(Error::Cancelled),
                Err(error) => {
                    groups.fail(number, &error);
                    return Err(error);
                }
            }
        }
        left = rest;
        is_first = false;
        if left.is_empty() {
            return Ok(true);
        }
        if !job.output.wait {
            return Ok(false);
        }
        wait = if left.len() < before { WAITS[0] } else { (2 * wait).min(WAITS[1]) };
        pause(wait, control)?;
    }
}

/// Waits, and hears a cancel.
fn pause(time: Duration, control: &Control) -> Result<()> {
    let started = Instant::now();
    while started.elapsed() < time {
        control.tick()?;
        thread::sleep(TICK.min(time));
    }
    Ok(())
}

/// The report of the groups that are packed so far.
fn so_far(job: &GroupedJob<'_>, groups: &Groups, control: &Control) -> Result<Report> {
    let (mut report, done) = report_of(job, groups, GroupStep::Rows, 0..job.len(), control)?;
    report.facts.warnings.push(format!(
        "{done} of {} groups are packed so far, which this report counts; other processes work on the rest, or put \
         the output together",
        job.len()
    ));
    Ok(report)
}

/// The report of those of some groups that have finished a step, and their number.
fn report_of(
    job: &GroupedJob<'_>,
    groups: &Groups,
    step: GroupStep,
    some: Range<usize>,
    control: &Control,
) -> Result<(Report, usize)> {
    let mut record = GroupRecord::default();
    let mut done = 0;
    job.each_packed(groups, some, step, HashedFiles::Small, control, |_, found| {
        if let Some((_, later)) = found {
            record.merge(later);
            done += 1;
        }
        Ok(())
    })?;
    let GroupRecord { counted, seen, seconds, .. } = record;
    let mut about = InputFacts::new(job.job, job.found);
    about.read(job.job, seen);
    let options = &job.job.options;
    let work = counted.total().work;
    let report = counted.close(options).report_so_far(options, about);
    Ok((report.timed(seconds, options.work.threads.get(), &work), done))
}
