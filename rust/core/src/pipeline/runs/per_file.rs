//! Packs each input separately, into outputs named after it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::config::{Options, Output};
use crate::document::store::{DocumentStore, TokenLog};
use crate::error::{Error, Result};
use crate::pipeline::documents::tokenized_blocks::{BlockTokenizer, TokenizedBlock};
use crate::pipeline::job::Job;
use crate::pipeline::rows::planned_packing::Packing;
use crate::pipeline::statistics::input_facts::InputFacts;
use crate::pipeline::statistics::packed_counts::PackedCounts;
use crate::report::Report;
use crate::sink::OutputFolder;
use crate::source::{Blocks, FoundFiles, SourceFile};
use crate::util::control::{Control, Phase};

/// Packs each file of `found` into separate files in `folder`. The report contains one of each file.
pub(in crate::pipeline) fn pack_each(
    job: &Job,
    found: FoundFiles,
    folder: &mut OutputFolder,
    log: &Arc<TokenLog>,
    output: &Output,
    consumed: &mut dyn FnMut(&TokenizedBlock),
    control: &Control,
) -> Result<Report> {
    let started = Instant::now();
    let mut about = InputFacts::new(job, &found);
    // The lost share is measured over all files together.
    let mut options = job.options.clone();
    options.work.max_lost = None;
    let files = found.files.iter().map(|file| (Arc::clone(&file.path), file.size)).collect();
    let stems = stems(&found.files)?;
    folder.reserve(&stems)?;
    let mut each = PerFilePacking {
        job,
        options: &options,
        about: &about,
        folder,
        control,
        files,
        stems,
        at: 0,
        log,
        output,
        packing: packing(&options, job, &about, log, output)?,
        total: PackedCounts::default(),
        reports: BTreeMap::new(),
    };
    let seen =
        BlockTokenizer::new(job, control).read(&mut Blocks::new(found), Some(log), |outcome| {
            consumed(&outcome);
            each.take(outcome)
        })?;
    while each.at < each.files.len() {
        each.finish_file()?;
    }
    let PerFilePacking { total, reports, .. } = each;
    total.check_max_lost(job.options.work.max_lost)?;
    about.read(job, seen);
    let report = total.report(&job.options, about, started)?;
    Ok(Report { per_file: reports, ..report })
}

/// The files that are packed one at a time.
struct PerFilePacking<'a> {
    job: &'a Job,
    options: &'a Options,
    about: &'a InputFacts,
    folder: &'a mut OutputFolder,
    control: &'a Control,
    /// Their paths and sizes.
    files: Vec<(Arc<Path>, u64)>,
    stems: Vec<String>,
    /// The current file.
    at: usize,
    log: &'a Arc<TokenLog>,
    output: &'a Output,
    packing: Packing<'a>,
    total: PackedCounts,
    reports: BTreeMap<String, Report>,
}

impl PerFilePacking<'_> {
    /// Stores the documents of a block. Blocks come in the order of the files.
    fn take(&mut self, outcome: TokenizedBlock) -> Result<()> {
        while self.files[self.at].0 != *outcome.documents.path() {
            self.finish_file()?;
        }
        self.packing.cut_and_store(outcome)
    }

    /// Packs and writes the current file, and moves to the next.
    fn finish_file(&mut self) -> Result<()> {
        let started = Instant::now();
        let (path, bytes) = self.files[self.at].clone();
        let next = packing(self.options, self.job, self.about, self.log, self.output)?;
        let packing = std::mem::replace(&mut self.packing, next);
        let done = self.folder.begin(self.stems[self.at].clone())?;
        let done = usize::try_from(done).expect("rows of a plan, which is in memory");
        let packed_counts = packing.finish(done, self.control, self.folder)?;
        self.total.merge(packed_counts.clone());
        let mut report =
            packed_counts.report(self.options, self.about.of_part(1, bytes), started)?;
        report.timing = None;
        self.reports.insert(path.display().to_string(), report);
        self.control.enter(Phase::Tokenize);
        self.at += 1;
        Ok(())
    }
}

/// The packing of one file.
fn packing<'a>(
    options: &'a Options,
    job: &Job,
    about: &InputFacts,
    log: &Arc<TokenLog>,
    output: &Output,
) -> Result<Packing<'a>> {
    let store = DocumentStore::with_log(Arc::clone(log), output.memory);
    let layout = job.file_layout(about.sources.clone(), output.coding.layout)?;
    Ok(Packing::with_store(options, layout, store))
}

/// The stems of the names of outputs.
///
/// A stem is the file's name without its extensions, with parent folders where several files have the same
/// name.
fn stems(files: &[SourceFile]) -> Result<Vec<String>> {
    let names: Vec<String> = files.iter().map(stem).collect();
    let mut count: HashMap<&str, usize> = HashMap::new();
    for name in &names {
        *count.entry(name).or_default() += 1;
    }
    let shared = names.iter().zip(files).filter(|(name, _)| count[name.as_str()] > 1);
    let common = common_folders(shared.map(|(_, file)| &*file.path));
    let stems = names.iter().zip(files).map(|(name, file)| {
        if count[name.as_str()] == 1 {
            return name.clone();
        }
        let folders = file.path.parent().into_iter().flat_map(Path::components).skip(common);
        let folders = folders.map(|it| it.as_os_str().to_string_lossy().into_owned());
        folders.chain([name.clone()]).collect::<Vec<_>>().join("-")
    });
    let stems: Vec<String> = stems.collect();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (stem, file) in stems.iter().zip(files) {
        // `a-00001` could be the name of the second shard of `a`.
        let base = stem.rsplit_once('-').filter(|(_, number)| {
            number.len() >= 5 && number.bytes().all(|digit| digit.is_ascii_digit())
        });
        let taken = base.is_some_and(|(base, _)| stems.iter().any(|other| other == base));
        if taken || !seen.insert(stem) {
            let reason = format!(
                "cannot name the output of `{}` after it: `{stem}` is that of another file; rename one",
                file.path.display()
            );
            return Err(Error::option("format.per_file", reason));
        }
    }
    Ok(stems)
}

/// The name of a file without the extensions of its format.
fn stem(file: &SourceFile) -> String {
    let name = file.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let format = file.format.to_string();
    let endings = format.split('.').count();
    let mut stem = name.as_str();
    for _ in 0..endings {
        match stem.rsplit_once('.') {
            Some((before, _)) if !before.is_empty() => stem = before,
            _ => break,
        }
    }
    stem.to_owned()
}

/// The number of leading folders that all of these paths share.
fn common_folders<'a>(mut paths: impl Iterator<Item = &'a Path>) -> usize {
    let Some(first) = paths.next().and_then(Path::parent) else { return 0 };
    let shared =
        |a: &Path, b: &Path| a.components().zip(b.components()).take_while(|(a, b)| a == b).count();
    paths.filter_map(Path::parent).map(|other| shared(first, other)).min().unwrap_or(0)
}
