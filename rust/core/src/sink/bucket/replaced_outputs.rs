//! [`ReplacedOutputs`]: the outputs that lay in a bucket before, whole or not. The new one replaces them.

use std::collections::{HashMap, HashSet};

use super::run_names::{started, work};
use crate::config::Output;
use crate::config::identity::Identity;
use crate::error::{Error, Result};
use crate::sink::file_names::{MANIFEST, REPLACED, WORK};
use crate::sink::folder::output_survey::is_in_the_way;
use crate::sink::manifest::{Manifest, SizedFile, expected};
use crate::sink::shards::folder_layout::FolderLayout;
use crate::storage::{BucketFolder, Version};
use crate::util::control::Control;
use crate::util::disk::removal::{Claim, Evidence};
use crate::util::start_thread::FILE_THREADS;
use crate::util::threads_in_order::ordered;
use crate::util::wording::{Message, message, set};

/// The most files that a message names.
const NAMED: usize = 5;

/// The outputs that lay in a bucket before, whole or not: the new one replaces them.
#[derive(Debug, Default)]
pub(crate) struct ReplacedOutputs {
    /// The manifest of the last whole output, which may be removed already.
    replaced: Option<Manifest>,
    /// The versions of their files that are as their manifests say, with their hashes, and of the manifests.
    own: HashMap<String, (Version, String)>,
}

impl Evidence<BucketFolder> for ReplacedOutputs {
    fn claim(&self, name: &String) -> Claim<Version> {
        match self.own.get(name) {
            Some((version, _)) => Claim::Version(version.clone()),
            None => Claim::None,
        }
    }
}

impl ReplacedOutputs {
    /// The outputs that lie in a bucket. Refuses to write beside the output of another job, or over files of others.
    pub(crate) fn find(
        target: &BucketFolder,
        output: &Output,
        job: &Identity,
        control: &Control,
    ) -> Result<Self> {
        let mut earlier = Self::default();
        let whole = earlier.read(target, MANIFEST)?;
        if let Some(old) = whole.as_ref().filter(|_| !output.overwrite) {
            return match old.job.differences(job) {
                Some(differences) => Err(held(target, "the output of another job", &differences)),
                None => Err(changed(target)),
            };
        }
        let underway = started(target)?.filter(|_| !output.overwrite);
        if let Some(differences) = underway.and_then(|it| it.job.differences(job)) {
            return Err(held(target, "the groups of another job", &differences));
        }
        let before = earlier.read_record(target, REPLACED)?;
        earlier.replaced = whole.or(before);
        let placing = earlier.read_record(target, MANIFEST)?;
        let placing = placing.filter(|it| output.overwrite || it.job.differences(job).is_none());
        earlier.recognise(target, placing.as_ref(), control)?;
        earlier.refuse_others(target, output)?;
        Ok(earlier)
    }

    /// True if the replaced output is whole.
    pub(crate) fn is_whole(&self) -> bool {
        self.replaced.is_some()
    }

    /// Reads a manifest, whose version is known from then on.
    fn read(&mut self, target: &BucketFolder, name: &str) -> Result<Option<Manifest>> {
        let Some((text, version)) = target.read_version(name)? else { return Ok(None) };
        let manifest = Manifest::parse(&text);
        if manifest.is_some() {
            let hash = blake3::hash(&text).to_hex().to_string();
            self.own.insert(name.to_owned(), (version, hash));
        } else if let Some(fault) = Manifest::fault_of_text(name, &text) {
            let reason = format!("{fault}; write to another folder, or move it away");
            return Err(Error::output(target.name(), reason));
        }
        Ok(manifest)
    }

    /// Reads a manifest of the work folder, and fails with [`Error::Output`] if it has changed: it says whose other files are.
    fn read_record(&mut self, target: &BucketFolder, name: &str) -> Result<Option<Manifest>> {
        let name = work(name);
        let found = self.read(target, &name)?;
        if found.is_none() && target.read(&name)?.is_some() {
            let reason = format!(
                "holds `{name}`, which fastpack did not write, or which has changed since; move `{WORK}` away, or write to another \
                 folder"
            );
            return Err(Error::output(target.name(), reason));
        }
        Ok(found)
    }

    /// Finds the files that are as the manifests say.
    fn recognise(
        &mut self,
        target: &BucketFolder,
        placing: Option<&Manifest>,
        control: &Control,
    ) -> Result<()> {
        let mut listed: HashMap<&str, Vec<(u64, &str)>> = HashMap::new();
        let manifests = self.replaced.iter().chain(placing);
        for SizedFile { name, bytes, blake3 } in manifests.flat_map(Manifest::listed) {
            listed.entry(name).or_default().push((bytes, blake3));
        }
        let there = if listed.is_empty() { Vec::new() } else { target.entries()? };
        let mut there = there.into_iter().filter_map(|entry| {
            let alike = listed.get(&*entry.name)?.iter().filter(|(bytes, _)| *bytes == entry.bytes);
            let alike: Vec<_> = alike.copied().collect();
            (!alike.is_empty()).then_some((entry.name, alike))
        });
        let ask = |(name, alike): (String, Vec<(u64, &str)>)| -> Result<_> {
            for (bytes, blake3) in alike {
                control.tick()?;
                if let Some(version) =
                    target.holds(&name, bytes, expected(&name, blake3), control)?
                {
                    return Ok(Some((name, (version, blake3.to_owned()))));
                }
            }
            Ok(None)
        };
        let mut found = Vec::new();
        let take = |one: Option<_>| {
            found.extend(one);
            Ok::<_, Error>(())
        };
        ordered(FILE_THREADS, || Ok(there.next()), || ask, take)?;
        self.own.extend(found);
        Ok(())
    }

    /// Fails if an object of somebody else has come to lie where a file of `manifest` has to, before anything is removed.
    pub(crate) fn refuse_taken(&self, target: &BucketFolder, manifest: &Manifest) -> Result<()> {
        let wanted: HashSet<&str> = manifest.names().chain([MANIFEST]).collect();
        let there = target.entries()?.into_iter().map(|entry| entry.name);
        let mut taken =
            there.filter(|name| wanted.contains(&**name) && !self.own.contains_key(name));
        taken.next().map_or(Ok(()), |name| Err(target.in_the_way(&name)))
    }

    /// Keeps the manifest of the output that is replaced in the work folder.
    pub(crate) fn write_replaced(&self, target: &BucketFolder) -> Result<()> {
        let Some(replaced) = &self.replaced else { return Ok(()) };
        target.write_own(&work(REPLACED), replaced.to_text(), self)
    }

    /// Removes the files of the earlier outputs, the manifest first. Those that are files of `manifest` too stay: their names.
    pub(crate) fn remove(
        &mut self,
        target: &BucketFolder,
        manifest: &Manifest,
    ) -> Result<HashSet<String>> {
        let new: HashMap<&str, &str> =
            manifest.listed().map(|file| (file.name, file.blake3)).collect();
        let stays = |name: &str, hash: &str| new.get(name) == Some(&hash);
        let files = self.own.iter().filter(|(name, _)| !name.starts_with(WORK));
        let (stay, old): (Vec<_>, Vec<_>) = files.partition(|(name, (_, hash))| stays(name, hash));
        let stay = stay.into_iter().map(|(name, _)| name.clone()).collect();
        let old: Vec<_> = old.into_iter().map(|(name, _)| name.clone()).collect();
        let (first, rest): (Vec<_>, Vec<_>) = old.into_iter().partition(|name| name == MANIFEST);
        for names in [first, rest] {
            if let Some(changed) = target.remove_own(names, self)?.first() {
                return Err(target.in_the_way(changed));
            }
        }
        Ok(stay)
    }

    /// Removes the records of the replaced output, once the new output is whole.
    pub(crate) fn remove_records(target: &BucketFolder) -> Result<()> {
        let mut records = Self::default();
        for name in [work(REPLACED), work(MANIFEST)] {
            records.read(target, &name)?;
        }
        let names: Vec<_> = records.own.keys().cloned().collect();
        target.remove_own(names, &records).map(drop)
    }

    fn refuse_others(&self, target: &BucketFolder, output: &Output) -> Result<()> {
        let arrangement = FolderLayout::of(output);
        let others = target.entries()?.into_iter().map(|entry| entry.name);
        let others = others.filter(|name| {
            let is_work = name.starts_with(WORK);
            !self.own.contains_key(name)
                && !is_work
                && (!output.overwrite || is_in_the_way(name, arrangement))
        });
        let others: Vec<String> = others.take(NAMED + 1).map(|name| format!("`{name}`")).collect();
        if others.is_empty() {
            return Ok(());
        }
        let more = if others.len() > NAMED { " and others" } else { "" };
        let named = others[..others.len().min(NAMED)].join(", ");
        let reason = format!(
            "holds files that this job did not write, or that have changed since: {named}{more}; write to a folder of its own"
        );
        Err(Error::output(target.name(), reason))
    }
}

/// The error for a bucket that holds `what` with other options.
fn held(target: &BucketFolder, what: &str, differences: &str) -> Error {
    let reason = format!("holds {what}; what differs: {differences}");
    Error::output(target.name(), or_replace(reason))
}

/// The error for an output that has changed since it was written.
fn changed(target: &BucketFolder) -> Error {
    let reason = "holds an output of this job that has changed".to_owned();
    Error::output(target.name(), or_replace(reason))
}

fn or_replace(reason: String) -> Message {
    let replace = set("exists", "overwrite");
    message![reason, "; write to another folder, or pass ", replace, " to replace it"]
}
