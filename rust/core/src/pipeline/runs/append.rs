//! [`append_dir`]: further files for a finished folder, of whose files no token is made again.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde::Deserialize;

use super::input_hashes::InputHashes;
use super::known_files::{NewFiles, refused, with_new_content};
use super::output_folder::{in_folder, read_report};
use super::pack_dir::{PreparedJob, pack_dir, prepare};
use super::repack::{damaged, take_blocks};
use crate::assemble::NumberedFiles;
use crate::config::identity::{FileState, Identity, JobInputs};
use crate::config::{Appending, Inputs, Output, RowColumn, Validation};
use crate::document::store::{DocumentStore, LogEntry, TokenLog};
use crate::error::{Error, Result};
use crate::pipeline::documents::earlier_blocks::EarlierBlocks;
use crate::pipeline::documents::shape_recogniser::FileKinds;
use crate::pipeline::documents::tokenized_blocks::{BlockTokenizer, PartOfJob, TokenizedBlock};
use crate::pipeline::job::{Job, JobTemplate};
use crate::pipeline::rows::planned_packing::Packing;
use crate::pipeline::rows::run_counts::RunCounts;
use crate::pipeline::rows::sink_packer::SinkPacker;
use crate::pipeline::statistics::input_facts::InputFacts;
use crate::report::listed_path::ListedPath;
use crate::report::{AppendedFiles, Report};
use crate::sink::{
    FinishedOutput, KeptTokens, LockedOutput, OutputFolder, TokensFile, finished_job,
    finished_output, is_emptied, kept, refuse_foreign_files, remove_output,
};
use crate::source::{Blocks, FoundFiles, SourceFile};
use crate::util::control::Control;
use crate::util::wording::{message, set};

/// The ending of the folder in which the new output is made, beside the old one. The beginning of the hash of the old job
/// follows, so that a folder of that name is no other's.
const APPEND_ENDING: &str = ".append-";

/// Digits of that hash.
const HASH: usize = 16;

/// Packs further files into a finished folder: with [`Appending::Tokens`] as [`pack_dir`] packs all files, the old ones first; with
/// [`Appending::Rows`] alone, so that their rows follow those of the folder.
///
/// The tokens of the old files are those that the folder keeps, or none is needed. The new output is made in a folder beside it with the
/// same access, where old shards are second names of the same files. It takes the place of the old one when it is whole; until then
/// the folder stays as it is, and is locked. A stopped call is resumed by the next. A folder that is not there yet is packed.
///
/// Fails with [`Error::Output`] if the folder does not keep what is needed, or is of a job with other options, and with
/// [`Error::Option`] if a file has changed since it was packed.
pub fn append_dir(
    mut job: Job,
    inputs: &Inputs,
    output: &Output,
    appending: Appending,
    control: &Control,
) -> Result<Report> {
    let all_again = appending == Appending::Tokens;
    refuse(&job, inputs, output, appending)?;
    let output = Output { keep_tokens: all_again, ..output.clone() };
    let Ok(found) = output.dir.symlink_metadata() else {
        return pack_dir(job, inputs, &output, None, control);
    };
    // The folder is exchanged, not a link that leads to it.
    let dir = if found.is_symlink() {
        output.dir.canonicalize().map_err(Error::io(&output.dir))?
    } else {
        output.dir.clone()
    };
    let output = Output { dir: dir.clone(), ..output };
    let locked = LockedOutput::take(&dir, output.wait, control)?;
    let finished = finished_output(&dir)?;
    if all_again && !finished.keeps_tokens() {
        let reason = message![
            "holds no tokens; a job with ",
            set("keep_tokens", true),
            " keeps them, and ",
            set("exists", "append_rows"),
            " needs none",
        ];
        return Err(Error::output(&dir, reason));
    }
    let kept = if all_again { Some(kept(&dir)?) } else { None };
    let Some(new_dir) = append_folder(&dir, finished.job()) else {
        return Err(refused(appending, "needs a folder that is not the root of the disk"));
    };
    finished.refuse_foreign_shards()?;
    finished.refuse_changed_shards(control)?;
    locked.refuse_foreign_work()?;
    let mut warnings = remove_replaced(&finished, &dir, control)?;
    refuse_foreign_files(&new_dir, control)?;
    let JobInputs::Files(known) = &finished.job().inputs else {
        let reason = "takes a folder that was packed from files, and not from records in memory or kept tokens";
        return Err(refused(appending, reason));
    };
    let old = match kept {
        Some(kept) => OldOutput::Tokens(kept),
        None => OldOutput::Rows(Box::new(counts_of(&finished, &dir)?)),
    };
    let PreparedJob { found, output, identity } = prepare(&job, inputs, &output, control)?;
    if output.cannot_resume {
        let reason =
            "needs functions and files that are recognised; give each function a `fingerprint`";
        return Err(refused(appending, reason));
    }
    let before = finished.job();
    let same = Identity {
        inputs: before.inputs.clone(),
        appended_to: before.appended_to.clone(),
        ..identity.clone()
    };
    if let Some(differences) = before.differences(&same) {
        let reason = format!(
            "holds the output of a job that differs in {differences}, so no file can be appended"
        );
        return Err(Error::output(&output.dir, reason));
    }
    let new = NewFiles::find(&finished, known, appending, found, &job, control)?;
    if new.found.files.is_empty() {
        warnings.extend(remove_output(&new_dir, Some(&dir), control)?);
        let report = read_report(finished.report(), &output.dir)?;
        let appended = Some(AppendedFiles::default());
        return Ok(Report { appended, finished_before: true, ..report }.with_warnings(warnings));
    }
    let appended_to = (!all_again).then(|| before.name());
    let identity = Identity { inputs: JobInputs::Files(new.all.clone()), appended_to, ..identity };
    let files = identity.files();
    // It may hold a stopped append.
    locked.create_with_same_access(&new_dir)?;
    let new_output =
        Output { dir: new_dir.clone(), overwrite: true, shared: true, ..output.clone() };
    let (now, max_lost) = (job.options.now(), job.options.work.max_lost);
    let report = in_folder(&new_output, &Arc::new(identity), now, max_lost, control, |folder| {
        if let JobTemplate::Ready(template) = &mut job.template {
            template.set_now(folder.now());
        }
        let grown = GrownOutput { finished: &finished, old, new, files };
        pack_behind(folder, &job, grown, &output, control)
    })?;
    locked.exchange(&new_dir)?;
    warnings.extend(remove_output(&new_dir, Some(&dir), control)?);
    // A call that was killed may have finished it there.
    Ok(Report { finished_before: false, ..report }.with_warnings(warnings))
}

/// The part of a finished folder to which files are appended.
enum OldOutput {
    /// The tokens of all documents.
    Tokens(KeptTokens),
    /// The counts of the documents, whose rows stay.
    Rows(Box<RunCounts>),
}

/// A finished output, and the files that are appended to it.
struct GrownOutput<'a> {
    finished: &'a FinishedOutput,
    old: OldOutput,
    new: NewFiles,
    /// The old and the new files, in their order.
    files: Vec<Arc<Path>>,
}

/// The counts of the finished output in the folder `dir`.
fn counts_of(finished: &FinishedOutput, dir: &Path) -> Result<RunCounts> {
    if finished.job().output.as_ref().is_some_and(|output| output.keep_tokens) {
        let reason = message![
            "keeps its tokens, which would lack those of new files; ",
            set("exists", Appending::Tokens.name()),
            " makes these alone, and plans all rows again",
        ];
        return Err(Error::output(dir, reason));
    }
    let counts = finished.counts().and_then(|counts| RunCounts::deserialize(counts).ok());
    let reason = "keeps no counts to which those of new rows could be added: it was packed in groups, by input or by another \
                  version; pack all files again";
    counts.ok_or_else(|| Error::output(dir, reason))
}

/// Refuses jobs whose files are not read one after another, each once, or whose rows depend on all files.
fn refuse(job: &Job, inputs: &Inputs, output: &Output, appending: Appending) -> Result<()> {
    let [source] = &inputs.sources[..] else {
        return Err(refused(appending, "takes one source; name one in `files`"));
    };
    if output.remote.is_some() {
        return Err(refused(appending, "needs a folder of the local disk as `output`"));
    }
    let unsupported = [
        ("format.per_file", output.per_file),
        ("groups", output.group_bytes.is_some()),
        ("limit", source.limit.is_some()),
        ("repeat", source.repeat.get() > 1),
        ("fraction", job.options.rows.shares.is_some()),
        ("keep_tokens", appending == Appending::Rows && output.keep_tokens),
    ];
    if let Some((option, _)) = unsupported.iter().find(|(_, is_set)| *is_set) {
        let reason = format!("cannot go with `{option}`; leave one of them out");
        return Err(refused(appending, reason));
    }
    if appending == Appending::Tokens {
        return Ok(());
    }
    let rows = &job.options.rows;
    let needs_all = if let Some(Validation::Documents(_)) = output.validation {
        "a number of documents as `validation`, which would change with every file; give a share, such as 0.01"
    } else if rows.columns.contains(&RowColumn::Group) {
        "the column `group`, which counts steps from the first row; leave it out"
    } else if job.objective()?.found_classes().is_some() {
        "classes that are found in the files; name them in `objective.classes`"
    } else {
        return Ok(());
    };
    Err(refused(appending, format!("cannot go with {needs_all}")))
}

/// The folder beside the output of a job in which files are appended to it.
fn append_folder(dir: &Path, job: &Identity) -> Option<PathBuf> {
    let mut name = dir.file_name()?.to_owned();
    name.push(APPEND_ENDING);
    name.push(&job.name()[..HASH]);
    Some(dir.with_file_name(name))
}

/// Removes what is left of outputs that the one in `dir` has replaced: folders beside it, each named after the job in it; emptied ones
/// if the manifest in `dir` names that job. Returns the warnings about files in them that stay.
fn remove_replaced(
    finished: &FinishedOutput,
    dir: &Path,
    control: &Control,
) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else { return Ok(warnings) };
    let parent = if parent == Path::new("") { Path::new(".") } else { parent };
    for entry in fs::read_dir(parent).map_err(Error::io(parent))? {
        let entry = entry.map_err(Error::io(parent))?;
        let other = entry.file_name();
        let rest = other.as_encoded_bytes().strip_prefix(name.as_encoded_bytes());
        let hash = rest.and_then(|rest| rest.strip_prefix(APPEND_ENDING.as_bytes()));
        let Some(hash) = hash.filter(|hash| hash.len() == HASH) else { continue };
        let sibling = dir.with_file_name(&other);
        let is_replaced = finished_job(&sibling)
            .is_ok_and(|job| job.is_some_and(|job| job.name().as_bytes().starts_with(hash)));
        let is_own = || finished.replaced().is_some_and(|job| job.as_bytes().starts_with(hash));
        if is_replaced || is_own() && is_emptied(&sibling) {
            let removed = remove_output(&sibling, Some(dir), control);
            // The call that was removing it may have come to its end meanwhile.
            let is_gone = sibling.symlink_metadata().is_err();
            warnings.extend(removed.or_else(|error| if is_gone { Ok(None) } else { Err(error) })?);
        }
    }
    Ok(warnings)
}

/// Packs the new files into a folder: behind the rows of the old ones, or with their kept tokens.
fn pack_behind(
    folder: &mut OutputFolder,
    job: &Job,
    grown: GrownOutput<'_>,
    output: &Output,
    control: &Control,
) -> Result<Report> {
    let GrownOutput { finished, old, new, files } = grown;
    let started = Instant::now();
    let log = Arc::new(TokenLog::open(&folder.blocks())?);
    folder.replaced = Some(finished.job().name());
    let before = read_report(finished.report(), &output.dir)?;
    let mut about = InputFacts::new(job, &new.found);
    let appended = AppendedFiles { files: about.facts.files, bytes: new.bytes };
    about.sources = NumberedFiles::new(files);
    about.facts.files = before.facts.files + new.count;
    about.facts.bytes = before.facts.bytes + new.bytes;
    let layout = job.file_layout(about.sources.clone(), output.coding.layout)?;
    let store = DocumentStore::with_log(Arc::clone(&log), output.memory);
    let packing = Packing::with_store(&job.options, layout, store);
    let mut packing = packing.with_validation(output.validation)?;
    if let OldOutput::Rows(_) = &old {
        packing = packing.allowing_one_side();
        folder.append_to(finished, control)?;
    }
    let packer = SinkPacker::new(packing, folder, control, started);
    let block_tokenizer = || BlockTokenizer::new(job, control).hashing(output.hashes_content());
    let mut taken = AppendedBlocks { packer, content: InputHashes::default(), blocks: 0 };
    let seen = match &old {
        OldOutput::Rows(_) => {
            block_tokenizer()
                .read(&mut Blocks::new(new.found), Some(&log), |outcome| taken.take(outcome))?
        }
        OldOutput::Tokens(kept) => {
            let old = OldTokens::open(kept, &finished.job().inputs)?;
            let merging =
                ReplanningAppend { old: &old, log: &log, job, all: about.facts.bytes, control };
            merging.merge(new.found, &block_tokenizer, &mut taken)?
        }
    };
    let AppendedBlocks { packer, content, blocks } = taken;
    let mut kinds = FileKinds::of(before.facts.inputs);
    kinds.merge(seen);
    about.read(job, kinds);
    let (report, content, tokens) = match old {
        OldOutput::Tokens(_) => {
            let report = packer.finish(about)?;
            let (bytes, blake3) = log.finish()?;
            (report, content.into_hashes(), Some(TokensFile { bytes, blocks, blake3 }))
        }
        OldOutput::Rows(counts) => {
            let report = packer.finish_after(Some(*counts), about)?;
            (report, with_new_content(finished, content.into_hashes()), None)
        }
    };
    let report = Report { appended: Some(appended), ..report };
    folder.finish(&report.to_json(), content, tokens)?;
    Ok(report)
}

/// The blocks that were packed so far.
struct AppendedBlocks<'a> {
    packer: SinkPacker<'a>,
    content: InputHashes,
    blocks: u64,
}

impl AppendedBlocks<'_> {
    fn take(&mut self, outcome: TokenizedBlock) -> Result<()> {
        self.content.add(&outcome);
        self.blocks += 1;
        self.packer.take(outcome)
    }
}

/// The kept tokens of a finished folder, block by block in the order of its files.
struct OldTokens<'k> {
    kept: &'k KeptTokens,
    log: TokenLog,
    /// The place of each file.
    files: &'k BTreeMap<ListedPath, FileState>,
}

impl<'k> OldTokens<'k> {
    fn open(kept: &'k KeptTokens, inputs: &'k JobInputs) -> Result<Self> {
        let log = TokenLog::open_finished(&kept.tokens)?;
        let is_whole = log.found().eq(0..kept.blocks);
        let JobInputs::Files(files) = inputs else { return Err(damaged(kept)) };
        if is_whole { Ok(Self { kept, log, files }) } else { Err(damaged(kept)) }
    }

    fn entry(&self, number: u64) -> Result<LogEntry> {
        let entry = self.log.entry(number, None)?;
        entry.map(|(entry, _)| entry).ok_or_else(|| damaged(self.kept))
    }

    /// The numbers of the blocks of the file at a place.
    fn blocks_of(&self, place: u64) -> Result<Range<u64>> {
        Ok(self.first_from(place)?..self.first_from(place + 1)?)
    }

    /// The number of the first block of the file at `place`, or else of the next file that has blocks.
    fn first_from(&self, place: u64) -> Result<u64> {
        let (mut low, mut high) = (0, self.kept.blocks);
        while low < high {
            let middle = low + (high - low) / 2;
            let path = ListedPath::from(self.entry(middle)?.documents.path());
            let state = self.files.get(&path).ok_or_else(|| damaged(self.kept))?;
            if state.place < place { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }
}

/// The work of an append that plans all tokens again.
struct ReplanningAppend<'a> {
    old: &'a OldTokens<'a>,
    /// The log of the new output.
    log: &'a TokenLog,
    job: &'a Job,
    /// The bytes of all files.
    all: u64,
    control: &'a Control,
}

impl<'a> ReplanningAppend<'a> {
    /// Packs all blocks in the order of the files: kept ones, and those of the files to read. Returns the formats and shapes of these.
    fn merge(
        &self,
        found: FoundFiles,
        block_tokenizer: &dyn Fn() -> BlockTokenizer<'a>,
        taken: &mut AppendedBlocks<'_>,
    ) -> Result<FileKinds> {
        let place = |file: &SourceFile| self.old.files.get(&ListedPath::from(&file.path));
        let known = found.files.partition_point(|file| place(file).is_some());
        let mut left = found.bytes();
        let mut seen = FileKinds::default();
        let mut next_old = 0;
        for file in &found.files[..known] {
            let Some(FileState { place, .. }) = place(file) else { continue };
            let numbers = self.old.blocks_of(*place)?;
            self.copy(next_old..numbers.start, taken)?;
            next_old = numbers.end;
            let earlier = EarlierBlocks { log: &self.old.log, numbers, first: taken.blocks };
            let alone = FoundFiles { files: vec![file.clone()], ..found.clone() };
            let bytes = alone.bytes();
            seen.merge(self.read(alone, left, block_tokenizer().knowing(earlier), taken)?);
            left -= bytes;
        }
        self.copy(next_old..self.old.kept.blocks, taken)?;
        let files = found.files[known..].to_vec();
        seen.merge(self.read(FoundFiles { files, ..found }, left, block_tokenizer(), taken)?);
        Ok(seen)
    }

    /// Packs the blocks of files, of which `left` bytes are left to read.
    fn read(
        &self,
        found: FoundFiles,
        left: u64,
        block_tokenizer: BlockTokenizer<'a>,
        taken: &mut AppendedBlocks<'_>,
    ) -> Result<FileKinds> {
        let (before, all) = (self.all.saturating_sub(left), self.all);
        let block_tokenizer =
            block_tokenizer.of_job(PartOfJob { before, all, first_block: taken.blocks });
        block_tokenizer.read(&mut Blocks::new(found), Some(self.log), |outcome| taken.take(outcome))
    }

    /// Packs kept blocks, and copies to the log of the new output the blocks that are not there yet.
    fn copy(&self, numbers: Range<u64>, taken: &mut AppendedBlocks<'_>) -> Result<()> {
        let (first_old, first) = (numbers.start, taken.blocks);
        let entry = |old: u64| {
            let number = old - first_old + first;
            if let Some(copied) = self.log.entry(number, None)? {
                return Ok(copied);
            }
            let entry = self.old.entry(old)?;
            let LogEntry { fingerprint, documents, ledger } = &entry;
            let place = self.log.append(number, fingerprint, documents, ledger)?;
            Ok((entry, place))
        };
        let take = |outcome| taken.take(outcome);
        take_blocks(numbers, &entry, take, &self.job.options, self.control)
    }
}
