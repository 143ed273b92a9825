//! [`pack_dir`] and [`write_memory`]: jobs that resume after a stop.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use fastpack_tokenize::Tokenizer;

use crate::config::identity::{FileState, Identity, JobInputs, MadeBy, MemoryState, ReadAs};
use crate::config::{Inputs, Output, Reading, RowLayout, Source};
use crate::document::store::{DocumentStore, TokenLog};
use crate::error::{Error, Result};
use crate::pipeline::documents::tokenized_blocks::{BlockTokenizer, TokenizedBlock};
use crate::pipeline::groups::{self, GroupedOutput};
use crate::pipeline::job::{Job, JobTemplate};
use crate::pipeline::rows::planned_packing::Packing;
use crate::pipeline::rows::sink_packer::SinkPacker;
use crate::pipeline::runs::cache_entry::CacheEntry;
use crate::pipeline::runs::input_hashes::InputHashes;
use crate::pipeline::runs::output_folder::{in_folder, made_by};
use crate::pipeline::runs::pack_files::refuse_with_shares;
use crate::pipeline::runs::per_file::pack_each;
use crate::pipeline::runs::records::Records;
use crate::pipeline::runs::repack::{KeptRows, pack_kept};
use crate::report::Report;
use crate::report::listed_path::ListedPath;
use crate::sink::{OutputFolder, TokensFile};
use crate::source::{FoundFiles, MemoryRecords, SourceFile, discover};
use crate::util::control::Control;
use crate::util::unique_hex::unique_hex;
use crate::util::wording::{message, set};

/// Packs all of `inputs` into files in `output.dir`.
///
/// If the same job has finished in the folder before, it is left as it is, and its report is returned. If the
/// job was stopped there, this call resumes it. With a function without an identity, no run resumes or
/// accepts another.
pub fn pack_dir(
    mut job: Job,
    inputs: &Inputs,
    output: &Output,
    cache: Option<&Path>,
    control: &Control,
) -> Result<Report> {
    // Classes have the same numbers in all files, and in all groups.
    job.finds_classes &= !output.per_file && output.group_bytes.is_none();
    let PreparedJob { found, output, identity } = prepare(&job, inputs, output, control)?;
    if let Some(group_bytes) = output.group_bytes {
        refuse_in_groups(&job, cache)?;
        let output = GroupedOutput { output: &output, group_bytes };
        return groups::pack(&mut job, &found, output, &Arc::new(identity), control);
    }
    if let Some(shares) = &job.options.rows.shares {
        refuse_with_shares(shares, "cache_dir", cache.is_some())?;
    }
    pack_job(&mut job, Records::Files(found), &output, cache, identity, control)
}

/// Takes one group of the job of [`pack_dir`] through one step, both counted from 0, unless that has been done.
/// Returns the report of the group.
///
/// Once all groups have gone through all steps, in the order of the steps, `pack_dir` puts the output together.
pub fn pack_group(
    mut job: Job,
    inputs: &Inputs,
    output: &Output,
    group: u64,
    step: usize,
    control: &Control,
) -> Result<Report> {
    job.finds_classes = false;
    let PreparedJob { found, output, identity } = prepare(&job, inputs, output, control)?;
    let Some(group_bytes) = output.group_bytes else {
        return Err(Error::option("groups.size", "must be given, such as \"4GB\""));
    };
    refuse_in_groups(&job, None)?;
    let output = GroupedOutput { output: &output, group_bytes };
    groups::pack_one(&mut job, &found, output, identity, group, step, control)
}

/// The bytes of each group of the job of [`pack_dir`], and the names of its steps.
pub fn list_groups(
    inputs: &Inputs,
    output: &Output,
    control: &Control,
) -> Result<(Vec<u64>, Vec<&'static str>)> {
    let Some(most) = output.group_bytes else {
        return Err(Error::option("groups.size", "must be given, such as \"4GB\""));
    };
    Ok(groups::listed(&discover(inputs, control)?, output, most))
}

/// A job whose options were checked.
pub(super) struct PreparedJob {
    pub(super) found: FoundFiles,
    pub(super) output: Output,
    pub(super) identity: Identity,
}

/// Checks the options of a job, and finds its files.
pub(super) fn prepare(
    job: &Job,
    inputs: &Inputs,
    output: &Output,
    control: &Control,
) -> Result<PreparedJob> {
    job.validate(inputs)?;
    output.validate(&job.options.rows)?;
    if let Some(shares) = &job.options.rows.shares {
        refuse_with_shares(shares, "format.per_file", output.per_file)?;
        refuse_with_shares(shares, "keep_tokens", output.keep_tokens)?;
        refuse_with_shares(shares, "groups", output.group_bytes.is_some())?;
    }
    let found = discover(inputs, control)?;
    refuse_own_inputs(&found.files, output)?;
    let cannot_resume =
        !job.transform.is_identified() || !found.files.iter().all(SourceFile::is_identified);
    let output = Output { cannot_resume, ..output.clone() };
    let files = JobInputs::Files(states(&found.files));
    let identity = identity(job, files, &found.sources, &output);
    Ok(PreparedJob { found, output, identity })
}

/// Packs records in memory into files in `output.dir`, as [`pack_dir`] does with files.
///
/// If the records have no identity before they are read, no two runs count as the same job: none resumes
/// another, and none accepts a finished folder.
pub fn write_memory(
    mut job: Job,
    memory: MemoryRecords,
    reading: Reading,
    output: &Output,
    cache: Option<&Path>,
    control: &Control,
) -> Result<Report> {
    let source = Source::of(Vec::new(), reading.clone());
    job.validate(&Inputs { sources: vec![source.clone()], ..Inputs::default() })?;
    output.validate(&job.options.rows)?;
    let known_as = memory.identity(control)?;
    let cannot_resume = known_as.is_none() || !job.transform.is_identified();
    let output = Output { cannot_resume, ..output.clone() };
    let name = memory.name().to_string_lossy().into_owned();
    let identity = identity(
        &job,
        JobInputs::Memory([(name, MemoryState { records: known_as })].into()),
        &[source],
        &output,
    );
    let records = Records::Memory(memory, Box::new(reading));
    pack_job(&mut job, records, &output, cache, identity, control)
}

/// Refuses what processes that pack groups cannot share.
fn refuse_in_groups(job: &Job, cache: Option<&Path>) -> Result<()> {
    if cache.is_some() {
        let reason = "cannot be given with `groups`, which keep their tokens until the job has finished; leave one of them out";
        return Err(Error::option("cache_dir", reason));
    }
    if !job.transform.is_identified() {
        let reason = "needs functions that other processes recognise; give each a `fingerprint`, a name \
                      of your own";
        return Err(Error::option("groups.size", reason));
    }
    Ok(())
}

/// Packs records into a folder, unless the job has finished there before.
fn pack_job(
    job: &mut Job,
    records: Records,
    output: &Output,
    cache: Option<&Path>,
    mut identity: Identity,
    control: &Control,
) -> Result<Report> {
    let cache = cache.filter(|_| !output.cannot_resume);
    if cache.is_some() {
        refuse_options_with_cache(output)?;
    }
    if output.cannot_resume {
        // Rows that are packed from its tokens must be distinguished from those of another run.
        identity.run = Some(unique_hex());
    }
    let (now, max_lost) = (job.options.now(), job.options.work.max_lost);
    // Dropped after the folder: while a large removed file is being closed, removing files beside it waits.
    let mut opened = None;
    in_folder(output, &Arc::new(identity), now, max_lost, control, |folder| {
        if let JobTemplate::Ready(template) = &mut job.template {
            template.set_now(folder.now());
        }
        if let Some(cache) = cache {
            return pack_cached(folder, job, records, output, cache, control);
        }
        let log = Arc::clone(opened.insert(Arc::new(TokenLog::open(&folder.blocks())?)));
        pack_into(folder, job, records, output, &log, control)
    })
}

/// Packs records into a folder from their tokens in `cache`, which are made first unless they exist.
fn pack_cached(
    folder: &mut OutputFolder,
    job: &mut Job,
    records: Records,
    output: &Output,
    cache: &Path,
    control: &Control,
) -> Result<Report> {
    let entry = CacheEntry::of(job, &records, cache, control)?;
    entry.use_tokens_once(job, records, control, |job, kept| {
        let layout = job.file_layout(kept.sources, output.coding.layout)?;
        let mut content = InputHashes::default();
        let mut consumed = |outcome: &TokenizedBlock| content.add(outcome);
        let rows = KeptRows { layout, validation: output.validation, about: kept.about };
        let report = pack_kept(kept.tokens, &job.options, rows, &mut consumed, control, folder)?;
        let hashes = content.into_hashes().into_iter();
        let hashes = hashes.map(|(name, hash)| {
            (kept.names.get(&*name.text()).map_or(name, |now| now.as_str().into()), hash)
        });
        folder.finish(&report.to_json(), hashes.collect(), None)?;
        Ok(report)
    })
}

/// Refuses options of a folder that do not go with a cache.
fn refuse_options_with_cache(output: &Output) -> Result<()> {
    if output.per_file {
        let reason = message![
            "cannot be given with ",
            set("format.per_file", true),
            ", which tokenizes each file by itself; leave one of them out",
        ];
        return Err(Error::option("cache_dir", reason));
    }
    if output.keep_tokens {
        let reason = message![
            "cannot be given with ",
            set("keep_tokens", true),
            ", which keeps the tokens in the folder; leave one of them out",
        ];
        return Err(Error::option("cache_dir", reason));
    }
    Ok(())
}

/// Packs records into a folder. Resumes where the last run of the job stopped.
fn pack_into(
    folder: &mut OutputFolder,
    job: &Job,
    records: Records,
    output: &Output,
    log: &Arc<TokenLog>,
    control: &Control,
) -> Result<Report> {
    let started = Instant::now();
    let mut content = InputHashes::default();
    let mut blocks = 0;
    let mut consumed = |outcome: &TokenizedBlock| {
        content.add(outcome);
        blocks += 1;
    };
    let report = match records {
        Records::Files(found) if output.per_file => {
            pack_each(job, found, folder, log, output, &mut consumed, control)?
        }
        records => {
            let mut about = records.about(job);
            let drawn = records.drawn_from(job);
            let mut blocks = records.into_blocks();
            let store = DocumentStore::with_log(Arc::clone(log), output.memory);
            let layout = job.file_layout(about.sources.clone(), output.coding.layout)?;
            let packing = Packing::with_store(&job.options, layout, store);
            let packing = packing.with_validation(output.validation)?;
            let packing = packing.with_shares(drawn.as_ref())?;
            let mut packer = SinkPacker::new(packing, folder, control, started);
            let block_tokenizer = BlockTokenizer::new(job, control)
                .hashing(output.hashes_content() || drawn.is_some());
            let seen = block_tokenizer.read(&mut blocks, Some(log), |outcome| {
                consumed(&outcome);
                packer.take(outcome)
            })?;
            about.read(job, seen);
            packer.finish(about)?
        }
    };
    let tokens = output
        .keep_tokens
        .then(|| log.finish().map(|(bytes, blake3)| TokensFile { bytes, blocks, blake3 }))
        .transpose()?;
    folder.finish(&report.to_json(), content.into_hashes(), tokens)?;
    Ok(report)
}

/// Refuses to write where an input lies: a shard could replace it.
fn refuse_own_inputs(files: &[SourceFile], output: &Output) -> Result<()> {
    if let Some(remote) = &output.remote {
        let folder = Path::new(remote.url.trim_end_matches('/'));
        let inside = files.iter().find(|file| file.path.starts_with(folder));
        return inside.map_or(Ok(()), |file| {
            let reason =
                format!("holds the input `{}`; write to a folder of its own", file.path.display());
            Err(Error::output(folder, reason))
        });
    }
    let Ok(dir) = output.dir.canonicalize() else { return Ok(()) };
    let inside =
        files.iter().find(|file| file.path.canonicalize().is_ok_and(|path| path.starts_with(&dir)));
    inside.map_or(Ok(()), |file| {
        let reason =
            format!("holds the input `{}`; write to a folder of its own", file.path.display());
        Err(Error::output(&output.dir, reason))
    })
}

/// The identity of a job that packs `inputs` with these sources into a folder.
fn identity(job: &Job, inputs: JobInputs, sources: &[Source], output: &Output) -> Identity {
    // Kept tokens may be packed again in the compact layout, which depends on the largest id.
    let narrows = output.keep_tokens || output.coding.layout == RowLayout::Compact;
    let largest_id = job.tokenizer.as_ref().filter(|_| narrows).and_then(Tokenizer::largest_id);
    Identity {
        fastpack: Identity::version(),
        inputs,
        sources: sources.iter().map(ReadAs::from).collect(),
        made_by: Some(MadeBy { largest_id, ..made_by(job) }),
        token_options: job.options.tokens.clone(),
        row_options: Some(job.options.rows.clone()),
        output: Some(output.deciding()),
        stream_options: None,
        run: None,
        appended_to: None,
    }
}

/// The states of files, by their paths.
fn states(files: &[SourceFile]) -> BTreeMap<ListedPath, FileState> {
    let listed = |(place, file): (u64, &SourceFile)| {
        (ListedPath::from(&file.path), FileState { place, ..state(file) })
    };
    (0..).zip(files).map(listed).collect()
}

/// The state of a file, as if it were the first.
pub(super) fn state(file: &SourceFile) -> FileState {
    FileState {
        place: 0,
        size: file.size,
        modified: file.modified,
        source: file.source as u64,
        etag: file.etag.as_deref().map(Box::from),
        grown: Box::default(),
    }
}
