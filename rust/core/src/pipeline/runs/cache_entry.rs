//! Tokens kept between calls in a `cache_dir`, found by the identity of their job.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::NaiveDateTime;

use crate::assemble::NumberedFiles;
use crate::config::Output;
use crate::config::identity::{FileContent, Identity, JobInputs, MadeBy, MemoryState, ReadAs};
use crate::document::store::TokenLog;
use crate::error::{Error, Result};
use crate::pipeline::documents::tokenized_blocks::BlockTokenizer;
use crate::pipeline::job::{Job, JobTemplate};
use crate::pipeline::rows::document_cutter::DocumentCutter;
use crate::pipeline::runs::output_folder::{in_folder, made_by, read_report};
use crate::pipeline::runs::records::Records;
use crate::pipeline::statistics::input_facts::InputFacts;
use crate::report::{Report, RunFacts};
use crate::sink::{KeptTokens, OutputFolder, TokensFile, discard, is_barred, is_damaged, kept};
use crate::source::{FoundFiles, SourceFile};
use crate::util::control::Control;
use crate::util::disk::regular;
use crate::util::threads_in_order::ordered;

/// The kept tokens of some records: a folder in the cache, named after the identity of the job.
pub(super) struct CacheEntry {
    identity: Arc<Identity>,
    output: Output,
}

/// The most folders that an entry is looked for in, of which the others are barred by files that nothing proves to be fastpack's.
const MOST_FOLDERS: usize = 100;

/// The reason why an entry cannot be made anew.
const BARRED: &str = "holds tokens that are damaged, beside files that fastpack did not write; remove it, or name another `cache_dir`";

impl CacheEntry {
    /// The entry of `records` in the folder `cache`.
    ///
    /// It is found by the content of the files, or the identity of the records in memory, and by all options
    /// that decide the tokens. A renamed or touched file has the same entry.
    pub(super) fn of(
        job: &Job,
        records: &Records,
        cache: &Path,
        control: &Control,
    ) -> Result<Self> {
        let inputs = match records {
            Records::Files(found) => JobInputs::Content(content(&found.files, job, control)?),
            Records::Memory(memory, _) => {
                let name = memory.name().to_string_lossy().into_owned();
                let state = MemoryState { records: memory.identity(control)? };
                JobInputs::Memory([(name, state)].into())
            }
        };
        let identity = Identity {
            fastpack: Identity::version(),
            inputs,
            sources: records.sources().iter().map(ReadAs::from).collect(),
            made_by: Some(MadeBy { time: template_time(job), ..made_by(job) }),
            token_options: job.options.tokens.clone(),
            row_options: None,
            output: None,
            stream_options: None,
            run: None,
            appended_to: None,
        };
        let name = identity.name();
        let output = Output::of_tokens(cache.join(&name[..32]));
        Ok(Self { identity: Arc::new(identity), output })
    }

    /// Calls `pack` with the tokens of files, which are made unless they exist. The next call resumes a
    /// stopped one, and of several at a time one does the work.
    ///
    /// A damaged entry is made again, and `pack` is called again.
    pub(super) fn use_tokens(
        &self,
        job: &mut Job,
        found: &FoundFiles,
        control: &Control,
        mut pack: impl FnMut(&Job, KeptRecords<'_>) -> Result<Report>,
    ) -> Result<Report> {
        let records = || Some(Records::Files(found.clone()));
        self.pack_from_entry(job, &mut || records(), control, &mut pack)
    }

    /// [`use_tokens`](Self::use_tokens) for records that are read once, and a `pack` that is called once.
    /// Tokens that prove damaged while they are packed are removed, so that the next call makes them again.
    pub(super) fn use_tokens_once(
        &self,
        job: &mut Job,
        records: Records,
        control: &Control,
        pack: impl FnOnce(&Job, KeptRecords<'_>) -> Result<Report>,
    ) -> Result<Report> {
        let (mut records, mut pack) = (Some(records), Some(pack));
        self.pack_from_entry(job, &mut || records.take(), control, &mut |job, kept| {
            pack.take().ok_or_else(|| self.removed_error())?(job, kept)
        })
    }

    fn pack_from_entry(
        &self,
        job: &mut Job,
        records: &mut dyn FnMut() -> Option<Records>,
        control: &Control,
        pack: &mut dyn FnMut(&Job, KeptRecords<'_>) -> Result<Report>,
    ) -> Result<Report> {
        let (entry, barred) = self.in_free_folder()?;
        let dir = &entry.output.dir;
        // The tokens are made in another folder for the first time.
        let barred = barred.filter(|_| kept(dir).is_err());
        let first_warning = barred.as_deref().map(|barred| tokenized_again_warning(barred, dir));
        let mut with = |entry: &Self, job: &mut Job, records: Records, warning: Option<String>| {
            let mut about = records.about(job);
            let kept = entry.make(job, records, control)?;
            let before = read_report(&kept.report, &entry.output.dir)?;
            // Documents have the names that their files had when the tokens were made.
            let names = before.facts.sources.iter();
            let sources = NumberedFiles::new(names.map(|name| Arc::from(Path::new(name))));
            let names = before.facts.sources.into_iter().zip(about.sources.names()).collect();
            let facts = RunFacts { sources: Vec::new(), ..before.facts };
            let (bytes, tokenizer) = (about.facts.bytes, about.facts.tokenizer.take());
            about.facts = RunFacts { bytes, tokenizer, ..facts };
            about.facts.warnings.extend(warning);
            pack(job, KeptRecords { tokens: &kept, about, sources, names })
        };
        let is_of_entry = |path: &Path| path.starts_with(dir);
        if !is_damaged(dir, &self.identity)? {
            let first = records().ok_or_else(|| entry.removed_error())?;
            if let Some(barred) = &barred {
                discard(barred, &self.identity, control)?;
            }
            match with(&entry, job, first, first_warning) {
                Err(Error::Output { path, .. }) if is_of_entry(&path) => {}
                other => return other,
            }
        }
        let damaged = discard(dir, &self.identity, control)?;
        let again = records().ok_or_else(|| entry.removed_error())?;
        let (free, _) = self.in_free_folder()?;
        let warning = damaged.then(|| tokenized_again_warning(dir, &free.output.dir));
        with(&free, job, again, warning).map_err(|error| match error {
            Error::Output { path, .. } if damaged && is_of_entry(&path) => entry.damaged(BARRED),
            other => other,
        })
    }

    /// The entry in the first of its folders in which no file bars the way, and the last folder before it.
    fn in_free_folder(&self) -> Result<(Self, Option<PathBuf>)> {
        let mut barred = None;
        for number in 0..MOST_FOLDERS {
            let mut dir = self.output.dir.clone().into_os_string();
            if number > 0 {
                dir.push(format!("-{number}"));
            }
            let dir = PathBuf::from(dir);
            if is_barred(&dir, &self.identity)? {
                barred = Some(dir);
                continue;
            }
            let output = Output { dir, ..self.output.clone() };
            return Ok((Self { identity: Arc::clone(&self.identity), output }, barred));
        }
        Err(self.damaged(BARRED))
    }

    /// The error for an entry that proved damaged while its tokens were packed into an output that cannot be
    /// restarted.
    fn removed_error(&self) -> Error {
        self.damaged("held tokens that were damaged; they are removed: call again")
    }

    fn damaged(&self, reason: &'static str) -> Error {
        Error::output(&self.output.dir, reason)
    }

    /// The tokens of `records`, which are made unless they exist.
    fn make(&self, job: &mut Job, records: Records, control: &Control) -> Result<KeptTokens> {
        let now = job.options.now();
        in_folder(&self.output, &self.identity, now, None, control, |folder| {
            if let JobTemplate::Ready(template) = &mut job.template {
                template.set_now(folder.now());
            }
            tokenize(folder, job, records, control)
        })?;
        kept(&self.output.dir)
    }
}

/// The warning of tokens that were damaged in the folder `before`, and were made anew in `dir`.
fn tokenized_again_warning(before: &Path, dir: &Path) -> String {
    let message =
        format!("the tokens kept in `{}` were damaged, and were made anew", before.display());
    if before == dir {
        return message;
    }
    format!(
        "{message} in `{}`: in the former, a file that fastpack did not write, or of which too little is left to tell, stays",
        dir.display()
    )
}

/// Records whose tokens are kept.
pub(super) struct KeptRecords<'k> {
    pub(super) tokens: &'k KeptTokens,
    pub(super) about: InputFacts,
    /// The files, by the names in the documents.
    pub(super) sources: NumberedFiles,
    /// The current names of the files, by the names in the documents.
    pub(super) names: HashMap<String, String>,
}

/// Makes the tokens of `records` and writes them to `folder`.
fn tokenize(
    folder: &mut OutputFolder,
    job: &Job,
    records: Records,
    control: &Control,
) -> Result<Report> {
    let log = TokenLog::open(&folder.blocks())?;
    let mut about = records.about(job);
    let mut blocks = 0;
    let mut pieces = Vec::new();
    let objective = job.objective()?;
    let cutter = DocumentCutter { options: &job.options, objective: &*objective, copy: 0 };
    // Whoever packs them may set documents aside.
    let block_tokenizer = BlockTokenizer::new(job, control).hashing(true);
    let seen = block_tokenizer.read(&mut records.into_blocks(), Some(&log), |outcome| {
        blocks += 1;
        // Errors that the rows would raise are raised here. Otherwise a bad record further on would be
        // reported first.
        for document in outcome.documents.iter() {
            cutter.cut(document, 0, &mut pieces)?;
            pieces.clear();
        }
        Ok(())
    })?;
    about.read(job, seen);
    let report = about.alone(&job.options);
    let (bytes, blake3) = log.finish()?;
    let tokens = TokensFile { bytes, blocks, blake3 };
    folder.finish(&report.to_json(), BTreeMap::new(), Some(tokens))?;
    Ok(report)
}

/// The identity of each file by its content.
fn content(files: &[SourceFile], job: &Job, control: &Control) -> Result<Vec<FileContent>> {
    let ranks = NumberedFiles::new(files.iter().map(|file| Arc::clone(&file.path))).ranks();
    let mut contents = Vec::with_capacity(files.len());
    let mut files = files.iter();
    let next = || -> Result<_> { Ok(files.next()) };
    let worker = || {
        |file: &SourceFile| -> Result<FileContent> {
            let opened = file.location.open().map_err(Error::io(&*file.path))?;
            Ok(FileContent {
                format: file.format.to_string(),
                source: file.source as u64,
                same: ranks[&file.path],
                blake3: regular::hash(opened, &file.path, control)?.to_hex().to_string(),
            })
        }
    };
    ordered(job.options.work.threads, next, worker, |content| {
        contents.push(content);
        Ok(())
    })?;
    Ok(contents)
}

/// The date and time that the template sees, if it uses it.
fn template_time(job: &Job) -> Option<NaiveDateTime> {
    match &job.template {
        JobTemplate::Ready(template) if template.mentions_strftime() => Some(job.options.now()),
        _ => None,
    }
}
