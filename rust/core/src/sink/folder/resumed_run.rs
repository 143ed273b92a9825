//! The start of a run in a locked folder: a new job, or one that resumes from the blocks and the whole shards that a killed run
//! of it left.

use std::collections::HashSet;
use std::sync::Arc;

use chrono::NaiveDateTime;

use super::leftovers::Leftovers;
use super::output_folder::OutputFolder;
use super::own_files::{self, OwnFiles};
use super::renamed_files::sync;
use crate::error::{Error, Result};
use crate::sink::file_names::{BLOCKS, BLOCKS_NEW, STARTED, STARTED_NEW, TOKENS};
use crate::sink::groups::group_files;
use crate::sink::manifest::{Manifest, WrittenShard};
use crate::sink::shards::finished_list::FinishedList;
use crate::util::control::Control;
use crate::util::disk::regular;

impl OutputFolder {
    /// Removes the remains of an output that was being placed or replaced, and the leftovers of another job.
    /// Then records the running job, so that a later run can tell whose leftovers it finds. In this order the
    /// leftovers of one job are never taken for those of another.
    pub(super) fn start(&mut self, left: &Leftovers, mut remains: OwnFiles) -> Result<()> {
        remains.remove(&self.files_of_work())?;
        let job = left.started.as_ref().map_or(&self.job, |started| &started.job);
        if job.is_grouped() {
            group_files::remove(self.work());
        }
        self.lock().clear(job, |name| name == STARTED)?;
        let new = self.work().join(STARTED_NEW);
        Manifest::new(Arc::clone(&self.job), self.now, Vec::new()).write(&new)?;
        self.files_of_work().rename_into(&new, STARTED)?;
        sync(self.work())
    }

    /// Takes over the leftovers of a run of this job that started at `now`: the blocks, and the whole shards
    /// up to the first that is not whole, in the work folder or in their places.
    pub(super) fn resume(
        &mut self,
        now: NaiveDateTime,
        left: &Leftovers,
        mut remains: OwnFiles,
        name: &str,
        control: &Control,
    ) -> Result<()> {
        self.now = now;
        let placing = left.placing.as_ref();
        // The shards of a job of groups are put together anew: those of its groups come before its own.
        let listed =
            if self.job.is_grouped() { Vec::new() } else { FinishedList::read(self.work(), name)? };
        for file in listed {
            let work = self.work().join(&file.name);
            if !own_files::is_whole(&work, file.bytes, &file.blake3, control)? {
                // The shard may be in its place already, and was found whole there.
                let is_it =
                    |it: &&WrittenShard| it.blake3 == file.blake3 && remains.contains(&it.name);
                let placed = placing.and_then(|placing| placing.files.iter().find(is_it));
                let Some(placed) = placed else { break };
                remains.fetch(&placed.name, &self.files_of_work(), &file.name)?;
            }
            self.files.push(file);
        }
        if remains.contains(TOKENS) && placing.is_some_and(|it| it.tokens.is_some()) {
            remains.fetch(TOKENS, &self.files_of_work(), BLOCKS)?;
        }
        remains.remove(&self.files_of_work())?;
        let kept: HashSet<&str> = self.files.iter().map(|file| file.name.as_str()).collect();
        let stays = |name: &str| [STARTED, BLOCKS].contains(&name) || kept.contains(name);
        self.clear(stays)?;
        let (blocks, new) = (self.blocks(), self.work().join(BLOCKS_NEW));
        if blocks.symlink_metadata().is_ok()
            && regular::copy_shared(&blocks, &new).map_err(Error::io(blocks))?
        {
            self.files_of_work().rename_into(&new, BLOCKS)?;
        }
        let Self { list, lock, files, job, .. } = self;
        let work = lock.as_ref().expect("it is held").files(job);
        list.write(name, files, &work)
    }
}
