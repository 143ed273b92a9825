//! Shards and tokens of groups that become those of the whole job.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use super::output_folder::OutputFolder;
use crate::config::Split;
use crate::error::{Error, Result};
use crate::sink::Sink;
use crate::sink::folder::output_survey::FinishedOutput;
use crate::sink::manifest::{TokensFile, WrittenShard};
use crate::util::control::Control;
use crate::util::disk::checksummed_frames::ChecksummedFrames;
use crate::util::disk::regular;
use crate::util::disk::regular::Links;
use crate::util::disk::removal::{prove, remove_file};
use crate::util::start_thread::FILE_THREADS;
use crate::util::threads_in_order::ordered;

impl OutputFolder {
    /// Takes over whole shards from elsewhere, as the last ones of the current series. They stay where they are too.
    pub fn adopt(&mut self, shards: &[(PathBuf, WrittenShard)], control: &Control) -> Result<()> {
        let named = self.numbered(shards)?;
        // Whose they are is known once they are listed.
        named.iter().try_for_each(|(_, shard)| self.list.add(shard))?;
        self.list.sync()?;
        let (work, mut left) = (self.work(), named.into_iter());
        let link = |(from, shard): (&Path, WrittenShard)| -> Result<WrittenShard> {
            control.tick()?;
            regular::link(from, &work.join(&shard.name)).map_err(Error::io(from))?;
            Ok(shard)
        };
        let mut linked = Vec::with_capacity(shards.len());
        let take = |shard| {
            linked.push(shard);
            Ok(())
        };
        ordered(FILE_THREADS, || Ok(left.next()), || link, take)?;
        self.adopted.extend(linked.iter().map(|shard| shard.name.clone()));
        self.files.extend(linked);
        Ok(())
    }

    /// Takes over the shards of an output to whose rows those of this job are appended, before the first row of the job.
    ///
    /// A resumed run has them all if it has a shard of its own, since they are listed first.
    pub fn append_to(&mut self, earlier: &FinishedOutput, control: &Control) -> Result<()> {
        for split in Split::ALL {
            self.begin_split(split)?;
            let shards = earlier.shards(split);
            self.earlier_rows += shards.iter().map(|(_, shard)| shard.rows).sum::<u64>();
            let there = self.in_series().min(shards.len());
            for number in 0..there {
                self.adopted.insert(self.series.name(number, self.coding.format));
            }
            self.adopt(&shards[there..], control)?;
        }
        self.begin_split(Split::Train)
    }

    /// [`adopt`](Self::adopt) of shards that stay in the bucket in which the output will lie, where they are copied.
    pub fn adopt_in_bucket(&mut self, shards: &[(PathBuf, WrittenShard)]) -> Result<()> {
        for (from, shard) in self.numbered(shards)? {
            let from = from.to_string_lossy().into_owned();
            self.uploaded_names.insert(shard.name.clone(), from);
            self.files.push(shard);
        }
        Ok(())
    }

    /// The names in the bucket of the shards that lie there, by their names in the finished folder.
    pub fn in_bucket(&self) -> HashMap<String, String> {
        let placed = self.arrangement.place(&self.files);
        let named = self.files.iter().zip(placed).filter_map(|(file, placed)| {
            Some((placed.name, self.uploaded_names.get(&file.name)?.clone()))
        });
        named.collect()
    }

    /// Shards from elsewhere by the names that they get as the last ones of the current series.
    fn numbered<'a>(
        &mut self,
        shards: &'a [(PathBuf, WrittenShard)],
    ) -> Result<Vec<(&'a Path, WrittenShard)>> {
        self.end_series()?;
        let numbers = self.in_series()..;
        let named = shards.iter().zip(numbers).map(|((from, shard), number)| {
            let name = self.series.name(number, self.coding.format);
            (&**from, WrittenShard { name, ..shard.clone() })
        });
        Ok(named.collect())
    }

    /// Takes over logs of blocks from elsewhere, one after the other, as the tokens that are kept.
    pub fn adopt_tokens(
        &self,
        logs: &[PathBuf],
        blocks: u64,
        control: &Control,
    ) -> Result<TokensFile> {
        let path = self.blocks();
        if let Some(proof) = prove(&self.files_of_work(), &path) {
            remove_file(proof).map_err(Error::io(&*path))?;
        }
        let mut joined = regular::create(&path).map_err(Error::io(&*path))?;
        for log in logs {
            control.tick()?;
            let mut log_file = regular::open(log, Links::Refused).map_err(Error::io(log))?;
            io::copy(&mut log_file, &mut joined).map_err(Error::io(&*path))?;
        }
        joined.sync_all().map_err(Error::io(&*path))?;
        let frames = ChecksummedFrames::scan(&joined).map_err(Error::io(&*path))?;
        if frames.found.len() as u64 != blocks {
            let reason =
                "holds tokens of a group that are damaged; move `.fastpack` away, and pack again";
            return Err(Error::output(&self.dir, reason));
        }
        Ok(TokensFile { bytes: frames.end, blocks, blake3: frames.digest.to_hex().to_string() })
    }
}
