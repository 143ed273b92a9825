//! [`GroupedJob`]: a job that is cut into groups, and the work on one group.

use std::fs;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::group_inputs::{cut, part, sized};
use super::group_result::GroupRecord;
use crate::assemble::NumberedFiles;
use crate::config::identity::{GroupOfJob, Identity, JobInputs};
use crate::config::{MaxLost, Options, Output, Validation};
use crate::document::store::{DocumentStore, TokenLog};
use crate::error::{Error, Result};
use crate::pipeline::documents::tokenized_blocks::{BlockTokenizer, PartOfJob, TokenizedBlock};
use crate::pipeline::documents::validation_split::SplitThreshold;
use crate::pipeline::job::{Job, JobTemplate};
use crate::pipeline::rows::document_cutter::DocumentCutter;
use crate::pipeline::rows::planned_packing::Packing;
use crate::pipeline::rows::run_counts::RunCounts;
use crate::pipeline::rows::sink_packer::SinkPacker;
use crate::pipeline::rows::validation_draw::check_split;
use crate::pipeline::runs::input_hashes::InputHashes;
use crate::pipeline::runs::repack::take_all;
use crate::sink::{
    Groups, OpenOutput, OpenedJob, OutputFolder, PackedGroup, SPLIT_HASHES, TokensFile, kept, open,
};
use crate::source::{Blocks, FoundFiles, SourceFile};
use crate::util::control::Control;
use crate::util::start_thread::FILE_THREADS;
use crate::util::threads_in_order::ordered;

/// Bits of the number of a block that count the blocks of a group.
const BLOCK_BITS: u32 = 40;

/// A step of the work on all groups. The next begins once all groups have finished it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupStep {
    /// Makes the tokens, and the split hash of each document.
    Tokens,
    /// Writes the rows.
    Rows,
}

impl GroupStep {
    /// The steps of a job. A number of documents is set aside after all of them are known.
    pub(super) fn of(validation: Option<Validation>) -> &'static [Self] {
        let is_counted = validation.is_some_and(|it| it.documents().is_some());
        if is_counted { &[Self::Tokens, Self::Rows] } else { &[Self::Rows] }
    }

    /// The name in folders.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Rows => "rows",
        }
    }
}

/// The files of a group whose hashes are compared before the group is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HashedFiles {
    /// The small ones; shards and tokens are compared by their size.
    Small,
    /// All.
    All,
}

/// A job that is cut into groups of inputs.
pub(super) struct GroupedJob<'a> {
    pub(super) job: &'a Job,
    pub(super) found: &'a FoundFiles,
    pub(super) output: &'a Output,
    /// The short name of the job.
    name: String,
    /// The files of each group.
    groups: Vec<Range<usize>>,
    /// The bytes of the files before each group, and of all.
    before: Vec<u64>,
    /// The files of the job, by the numbers that rows give them.
    pub(super) sources: NumberedFiles,
    /// The options of a group: how much is lost is checked for the whole job.
    options: Options,
}

impl<'a> GroupedJob<'a> {
    pub(super) fn new(
        job: &'a Job,
        found: &'a FoundFiles,
        output: &'a Output,
        identity: &Identity,
        most: NonZeroU64,
    ) -> Self {
        let files = sized(found);
        let groups = cut(&files, most);
        let mut before = vec![0_u64];
        for group in &groups {
            let bytes = files[group.clone()].iter().map(|file| file.bytes);
            before.push(bytes.fold(before[before.len() - 1], u64::saturating_add));
        }
        let mut options = job.options.clone();
        options.work.max_lost = MaxLost::new(1.0);
        Self {
            job,
            found,
            output,
            name: identity.name(),
            groups,
            before,
            sources: NumberedFiles::new(found.files.iter().map(|file| Arc::clone(&file.path))),
            options,
        }
    }

    /// The number of groups.
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// The files of a group.
    pub(super) fn files(&self, group: usize) -> &[SourceFile] {
        &self.found.files[self.groups[group].clone()]
    }

    /// The bytes of the files of a group.
    pub(super) fn bytes(&self, group: usize) -> u64 {
        self.before[group + 1] - self.before[group]
    }

    /// The bytes of all files.
    pub(super) fn all_bytes(&self) -> u64 {
        self.before[self.len()]
    }

    /// The identity of a group in a step.
    pub(super) fn identity_of(&self, group: usize, step: GroupStep) -> Identity {
        Identity {
            fastpack: Identity::version(),
            inputs: JobInputs::Group(GroupOfJob {
                job: self.name.clone(),
                group: group as u64,
                step: step.name().to_owned(),
            }),
            sources: Vec::new(),
            made_by: None,
            token_options: self.options.tokens.clone(),
            row_options: None,
            output: None,
            stream_options: None,
            run: None,
            appended_to: None,
        }
    }

    /// A group that has finished a step.
    pub(super) fn packed(
        &self,
        groups: &Groups,
        group: usize,
        step: GroupStep,
        hashed: HashedFiles,
        control: &Control,
    ) -> Result<Option<PackedGroup>> {
        let (identity, is_all) = (self.identity_of(group, step), hashed == HashedFiles::All);
        groups.packed(group as u64, step.name(), &identity, is_all, control)
    }

    /// Hands over some groups in their order, each with its record if it has finished a step. Many are read at a time, since the
    /// file system of a cluster answers slowly.
    pub(super) fn each_packed(
        &self,
        groups: &Groups,
        some: Range<usize>,
        step: GroupStep,
        hashed: HashedFiles,
        control: &Control,
        mut take: impl FnMut(usize, Option<(PackedGroup, GroupRecord)>) -> Result<()>,
    ) -> Result<()> {
        let mut left = some;
        let read = |group| {
            control.tick()?;
            let packed = self.packed(groups, group, step, hashed, control)?;
            let with_record = |it: PackedGroup| -> Result<_> {
                let record = GroupRecord::read(&it.report, &it.dir)?;
                Ok((PackedGroup { report: String::new(), ..it }, record))
            };
            Ok((group, packed.map(with_record).transpose()?))
        };
        ordered(FILE_THREADS, || Ok(left.next()), || read, |(group, found)| take(group, found))
    }

    /// True if all groups have finished all steps, or the job has ended.
    pub(super) fn are_done(&self, groups: &Groups) -> Result<bool> {
        let last = GroupStep::Rows.name();
        let is_over = groups.refresh()?;
        Ok(is_over || (0..self.len()).all(|group| groups.is_done(group as u64, last)))
    }

    /// True if the tokens of all groups are made before the rows of any.
    pub(super) fn tokenizes_all_groups_first(&self) -> bool {
        GroupStep::of(self.output.validation).contains(&GroupStep::Tokens)
    }

    /// Works on a group, unless it has finished the step before. Fails with [`Error::Busy`] if another process works
    /// on it.
    pub(super) fn work(
        &self,
        groups: &Groups,
        group: usize,
        step: GroupStep,
        threshold: Option<SplitThreshold>,
        control: &Control,
    ) -> Result<()> {
        let Some(hold) = groups.hold(group as u64, step.name())? else { return Ok(()) };
        let worked = self.work_alone(groups, group, step, threshold, control).and_then(|()| {
            let identity = self.identity_of(group, step);
            groups.publish(&hold, group as u64, step.name(), &identity, control)
        });
        groups.forget(group as u64, GroupStep::Tokens.name());
        worked
    }

    fn work_alone(
        &self,
        groups: &Groups,
        group: usize,
        step: GroupStep,
        threshold: Option<SplitThreshold>,
        control: &Control,
    ) -> Result<()> {
        let keeps_tokens = match step {
            GroupStep::Tokens => true,
            GroupStep::Rows => self.output.keep_tokens && !self.tokenizes_all_groups_first(),
        };
        let output = Output {
            dir: groups.folder(group as u64, step.name()),
            hf_layout: false,
            keep_tokens: keeps_tokens,
            group_bytes: None,
            turn: None,
            overwrite: true,
            shared: true,
            wait: false,
            recipe: None,
            remote: None,
            ..self.output.clone()
        };
        let identity = Arc::new(self.identity_of(group, step));
        let mut folder = match open(&output, &identity, groups.now(), control)? {
            OpenedJob::Finished(_) => return Ok(()),
            OpenedJob::Ready(OpenOutput { folder, .. }) => folder,
        };
        let worked = match (step, threshold) {
            (GroupStep::Tokens, _) => self.tokens(&mut folder, group, control),
            (GroupStep::Rows, None) => self.rows(&mut folder, &output, group, control),
            (GroupStep::Rows, Some(_)) => {
                self.rows_of_tokens(&mut folder, groups, group, threshold, control)
            }
        };
        worked.inspect_err(|error| folder.fail(error))
    }

    /// The blocks of a group, and their place in the job.
    fn blocks(&self, group: usize) -> (Blocks, PartOfJob) {
        let part = part(self.found, self.groups[group].clone());
        let place = PartOfJob {
            before: self.before[group],
            all: self.all_bytes(),
            first_block: (group as u64) << BLOCK_BITS,
        };
        (Blocks::new(part), place)
    }

    /// Makes the tokens of a group, and the split hashes of its documents.
    fn tokens(&self, folder: &mut OutputFolder, group: usize, control: &Control) -> Result<()> {
        let started = Instant::now();
        let log = TokenLog::open(&folder.blocks())?;
        let (mut content, mut blocks, mut pieces) = (InputHashes::default(), 0, Vec::new());
        let mut hashes = Vec::new();
        let objective = self.job.objective()?;
        let cutter = DocumentCutter { options: &self.options, objective: &*objective, copy: 0 };
        let (mut found, place) = self.blocks(group);
        let block_tokenizer = BlockTokenizer::new(self.job, control).of_job(place).hashing(true);
        let seen = block_tokenizer.read(&mut found, Some(&log), |outcome| {
            content.add(&outcome);
            blocks += 1;
            for document in outcome.documents.iter() {
                // An error that the rows would raise is raised here.
                cutter.cut(document, 0, &mut pieces)?;
                pieces.clear();
                hashes
                    .push(SplitThreshold::hash(self.options.rows.packing.seed, document.content()));
            }
            Ok(())
        })?;
        hashes.sort_unstable();
        let hashes = hashes.into_iter().flat_map(u64::to_le_bytes).collect();
        let (bytes, blake3) = log.finish()?;
        let record = GroupRecord {
            counted: RunCounts::default(),
            seen,
            outside: self.rendered_outside(),
            blocks,
            seconds: started.elapsed().as_secs_f64(),
        };
        let tokens = TokensFile { bytes, blocks, blake3 };
        let hashes = vec![(SPLIT_HASHES.to_owned(), hashes)];
        folder.finish_with(&record.to_json(), content.into_hashes(), Some(tokens), hashes)
    }

    /// Packs a group into rows.
    fn rows(
        &self,
        folder: &mut OutputFolder,
        output: &Output,
        group: usize,
        control: &Control,
    ) -> Result<()> {
        let started = Instant::now();
        let log = Arc::new(TokenLog::open(&folder.blocks())?);
        let (mut content, mut blocks) = (InputHashes::default(), 0);
        let mut packer = SinkPacker::new(self.packing(&log)?, folder, control, started);
        let (mut found, place) = self.blocks(group);
        let block_tokenizer =
            BlockTokenizer::new(self.job, control).of_job(place).hashing(output.hashes_content());
        let seen = block_tokenizer.read(&mut found, Some(&log), |outcome: TokenizedBlock| {
            content.add(&outcome);
            blocks += 1;
            packer.take(outcome)
        })?;
        let record = GroupRecord {
            counted: packer.close()?,
            seen,
            outside: self.rendered_outside(),
            blocks,
            seconds: started.elapsed().as_secs_f64(),
        };
        let tokens = || log.finish().map(|(bytes, blake3)| TokensFile { bytes, blocks, blake3 });
        let tokens = output.keep_tokens.then(tokens).transpose()?;
        folder.finish(&record.to_json(), content.into_hashes(), tokens)
    }

    /// Packs the tokens of a group into the rows of its splits.
    fn rows_of_tokens(
        &self,
        folder: &mut OutputFolder,
        groups: &Groups,
        group: usize,
        threshold: Option<SplitThreshold>,
        control: &Control,
    ) -> Result<()> {
        let started = Instant::now();
        let fetched = self.fetched_tokens(groups, group, control)?;
        let record = GroupRecord::read(&fetched.report, &fetched.dir)?;
        let kept = kept(&fetched.dir)?;
        let log = Arc::new(TokenLog::open_finished(&kept.tokens)?);
        let packing = self.packing(&log)?.with_threshold(threshold);
        let packer = SinkPacker::new(packing, folder, control, started);
        let packer = take_all(&kept, &log, packer, &mut |_| (), &self.options, control)?;
        let seconds = record.seconds + started.elapsed().as_secs_f64();
        let record = GroupRecord { counted: packer.close()?, seconds, ..record };
        folder.finish(&record.to_json(), fetched.manifest.content, None)
    }

    /// The packing of a group, whose documents are kept in `log` too.
    fn packing(&self, log: &Arc<TokenLog>) -> Result<Packing<'_>> {
        let store = DocumentStore::with_log(Arc::clone(log), self.output.memory);
        let layout = self.job.file_layout(self.sources.clone(), self.output.coding.layout)?;
        let packing = Packing::with_store(&self.options, layout, store);
        Packing { is_group: true, ..packing }.with_validation(self.output.validation)
    }

    /// The tokens of a group, in a folder of the local disk. They are made again if they have changed since they were made.
    fn fetched_tokens(
        &self,
        groups: &Groups,
        group: usize,
        control: &Control,
    ) -> Result<PackedGroup> {
        let (step, identity) =
            (GroupStep::Tokens.name(), self.identity_of(group, GroupStep::Tokens));
        let find = || groups.fetched(group as u64, step, &identity, control);
        if let Some(packed) = find()? {
            return Ok(packed);
        }
        self.tokenize_group_again(groups, group, control)?;
        Self::require_tokens(groups, group, find()?)
    }

    /// The tokens of a group, which were made before, or are made again if a small file of them has changed since.
    pub(super) fn tokens_of(
        &self,
        groups: &Groups,
        group: usize,
        control: &Control,
    ) -> Result<PackedGroup> {
        let find = || self.packed(groups, group, GroupStep::Tokens, HashedFiles::Small, control);
        if let Some(packed) = find()? {
            return Ok(packed);
        }
        self.tokenize_group_again(groups, group, control)?;
        Self::require_tokens(groups, group, find()?)
    }

    fn tokenize_group_again(&self, groups: &Groups, group: usize, control: &Control) -> Result<()> {
        let (step, identity) =
            (GroupStep::Tokens.name(), self.identity_of(group, GroupStep::Tokens));
        groups.discard_tokens(group as u64, step, &identity, control)?;
        self.work(groups, group, GroupStep::Tokens, None, control)
    }

    fn require_tokens(
        groups: &Groups,
        group: usize,
        packed: Option<PackedGroup>,
    ) -> Result<PackedGroup> {
        let dir = groups.folder(group as u64, GroupStep::Tokens.name());
        let reason = "holds tokens of a group that have changed; remove it, and run again";
        packed.ok_or_else(|| Error::output(dir, reason))
    }

    /// The threshold of a number of documents that are set aside, among those of all groups.
    pub(super) fn threshold(
        &self,
        groups: &Groups,
        control: &Control,
    ) -> Result<Option<SplitThreshold>> {
        let Some(validation) = self.output.validation else { return Ok(None) };
        let Some(wanted) = validation.documents() else { return Ok(None) };
        if let Some(threshold) = groups.kept()? {
            return Ok(Some(threshold));
        }
        let (mut sorted, mut all) = (Vec::with_capacity(self.len()), 0);
        let find = |group| {
            control.tick()?;
            let tokens = self.tokens_of(groups, group, control)?;
            let path = groups.fetched_file(&tokens, SPLIT_HASHES, control)?;
            let bytes = fs::metadata(&path).map_err(Error::io(&*path))?.len();
            Ok::<_, Error>((path, bytes))
        };
        let mut left = 0..self.len();
        ordered(
            FILE_THREADS,
            || Ok(left.next()),
            || find,
            |(path, bytes)| {
                all += bytes / HASH;
                sorted.push(path);
                Ok(())
            },
        )?;
        // Hashes are evenly spread, so the smallest ones are most likely below this; else more are read.
        let (wanted, seed) = (wanted.get(), self.options.rows.packing.seed);
        let likely = u128::from(wanted) + u128::from(wanted / 8) + 1000;
        let likely = likely * u128::from(u64::MAX) / u128::from(all.max(1));
        let mut most = u64::try_from(likely).unwrap_or(u64::MAX);
        loop {
            let mut hashes = Vec::new();
            for path in &sorted {
                control.tick()?;
                let bytes = fs::read(path).map_err(Error::io(&**path))?;
                let all = bytes
                    .chunks_exact(8)
                    .map(|hash| u64::from_le_bytes(*hash.first_chunk().expect("8 bytes")));
                hashes.extend(all.take_while(|&hash| hash <= most));
            }
            let found = hashes.len() as u64;
            let (threshold, taken) = SplitThreshold::counted(wanted, seed, hashes);
            if taken == wanted || taken < found || most == u64::MAX {
                check_split(validation, taken, all)?;
                groups.keep(&threshold)?;
                return Ok(Some(threshold));
            }
            most = most.saturating_mul(4);
        }
    }

    /// The conversations that `transformers` rendered, in words.
    fn rendered_outside(&self) -> Option<String> {
        match &self.job.template {
            JobTemplate::Ready(template) => template.rendered_in_process(),
            JobTemplate::Refused(_) => None,
        }
    }
}

/// Bytes of a split hash in a file.
const HASH: u64 = 8;
