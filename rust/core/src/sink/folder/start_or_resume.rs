//! [`prepare`]: begins a job in a locked folder, or takes over what an unfinished run left there.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use chrono::NaiveDateTime;

use super::leftovers::Leftovers;
use super::lock::Lock;
use super::output_folder::OutputFolder;
use super::output_survey;
use super::renamed_files::RenamedFiles;
use crate::config::identity::Identity;
use crate::config::{Output, Split};
use crate::error::Result;
use crate::report::timing::Stages;
use crate::sink::file_names::WORK;
use crate::sink::groups::group_files;
use crate::sink::manifest::Manifest;
use crate::sink::shards::finished_list::FinishedList;
use crate::sink::shards::folder_layout::FolderLayout;
use crate::sink::shards::row_threads::RowThreads;
use crate::sink::shards::shard_names::ShardSeries;
use crate::sink::shards::shard_size::ShardSize;
use crate::sink::shards::shards_in_order::ShardsInOrder;
use crate::util::control::Control;
use crate::util::disk::regular;

/// Takes over the files of an unfinished run in a folder that is locked, or begins the job there.
pub(in crate::sink) fn prepare(
    output: &Output,
    job: &Arc<Identity>,
    now: NaiveDateTime,
    lock: Lock,
    created: bool,
    control: &Control,
) -> Result<OutputFolder> {
    let (dir, name) = (&output.dir, job.name());
    let left = Leftovers::find(dir)?;
    let arrangement = FolderLayout::of(output);
    if !output.overwrite {
        output_survey::refuse_other_jobs(dir, job, &left)?;
    }
    let (remains, mut owned) = left.owned(dir, control)?;
    group_files::remove_changed(dir, &mut owned.others);
    if output.overwrite {
        let others = owned.others.iter();
        let in_the_way =
            others.filter(|name| output_survey::is_in_the_way(name, arrangement)).cloned();
        output_survey::refuse_in_the_way(dir, &in_the_way.collect::<Vec<_>>())?;
    } else {
        output_survey::refuse_all(dir, &owned.others, arrangement)?;
    }
    let mut folder = OutputFolder {
        dir: dir.clone(),
        created,
        cannot_resume: output.cannot_resume,
        job: Arc::clone(job),
        recipe: output.recipe.clone(),
        now,
        coding: output.coding,
        size: ShardSize::of(output.shard_bytes),
        arrangement,
        series: Box::new(ShardSeries::Split(Split::Train)),
        open: ShardsInOrder::default(),
        threads: RowThreads::new(control),
        spent: Stages::default(),
        files: Vec::new(),
        uploaded_names: HashMap::new(),
        adopted: HashSet::new(),
        earlier_rows: 0,
        replaced: None,
        counts: None,
        list: FinishedList::new(lock.work(), &name),
        uploads: None,
        owned,
        placed: RenamedFiles::default(),
        lock: Some(lock),
        control: control.with_same_flag(),
    };
    let is_mine = |it: &&Manifest| !output.cannot_resume && it.job.differences(job).is_none();
    match left.started.as_ref().filter(is_mine) {
        Some(started) => folder.resume(started.now, &left, remains, &name, control)?,
        None => folder.start(&left, remains)?,
    }
    Ok(folder)
}

/// Removes a leftover work folder from a finished folder, if the run that finished it was killed at the very
/// end.
pub(in crate::sink) fn tidy(dir: &Path, control: &Control) {
    // It does no harm where it has to stay.
    if regular::is_folder(&dir.join(WORK))
        && let Ok((lock, _)) = Lock::take(dir, None, false, control)
        && let Ok(Leftovers { started: Some(started), .. }) = Leftovers::find(dir)
    {
        group_files::remove(lock.work());
        let _ = lock.clear(&started.job, |_| false);
    }
}
