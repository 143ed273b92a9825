//! Tokens kept from one call of [`pack_files`](crate::pipeline::pack_files) to the next, by what they are made of.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use chrono::NaiveDateTime;

use crate::assemble::Sources;
use crate::config::{Coding, Format, Output, RowLayout};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::identity::{FileContent, Identity, MadeBy, Packed, ReadAs};
use crate::ordered::ordered;
use crate::pipeline::accounts::about::About;
use crate::pipeline::accounts::books::fate;
use crate::pipeline::documents::intake::Intake;
use crate::pipeline::job::{Job, JobTemplate};
use crate::pipeline::runs::dir::{in_folder, made_by};
use crate::regular::{self, Links};
use crate::report::Report;
use crate::sink::{Folder, Kept, Tokens, discard, is_damaged, kept};
use crate::source::{Blocks, Found, SourceFile};
use crate::store::Log;

/// Where the tokens of some files are kept: a folder in the cache, named after all that decides them.
pub(in crate::pipeline) struct Entry {
    identity: Arc<Identity>,
    output: Output,
}

impl Entry {
    /// The entry of `found` in the folder `cache`.
    ///
    /// It is found by the content of the files, and by all that decides what becomes of it: a file that was renamed or
    /// touched has the same one.
    pub(in crate::pipeline) fn of(
        job: &Job,
        found: &Found,
        cache: &Path,
        control: &Control,
    ) -> Result<Self> {
        let inputs = Packed::Content(content(&found.files, job, control)?);
        let identity = Identity {
            fastpack: Identity::version(),
            inputs,
            sources: found.sources.iter().map(ReadAs::from).collect(),
            made_by: Some(MadeBy { time: template_time(job), ..made_by(job) }),
            token_options: job.options.tokens.clone(),
            row_options: None,
            output: None,
            run: None,
        };
        let name = identity.name();
        let output = Output {
            dir: cache.join(&name[..32]),
            coding: Coding { format: Format::Arrow, layout: RowLayout::Full, compression: None },
            per_file: false,
            hf_layout: false,
            validation: None,
            shard_bytes: u64::MAX,
            keep_tokens: true,
            // Files of others may lie beside the tokens, and of several calls at a time one makes these for all.
            overwrite: true,
            shared: true,
            once: false,
            wait: true,
            memory: 0,
            recipe: None,
        };
        Ok(Self { identity: Arc::new(identity), output })
    }

    /// Calls `pack` with the tokens of `found`, made unless they are there. A call that is stopped on the way is gone on
    /// with by the next, and of several at a time one does the work.
    ///
    /// An entry that is damaged is made anew, and `pack` called again; it gets the warning that says so.
    pub(in crate::pipeline) fn use_tokens<T>(
        &self,
        job: &mut Job,
        found: &Found,
        control: &Control,
        mut pack: impl FnMut(&Job, &Kept, Option<String>) -> Result<T>,
    ) -> Result<T> {
        let dir = &self.output.dir;
        let mut with = |job: &mut Job, warning| {
            self.make(job, found, control).and_then(|kept| pack(job, &kept, warning))
        };
        if !is_damaged(dir, &self.identity)? {
            match with(job, None) {
                Err(Error::Output { .. }) => {}
                other => return other,
            }
        }
        let damaged = discard(dir, &self.identity, control)?;
        let warning = damaged.then(|| {
            format!("the tokens kept in `{}` were damaged, and were made anew", dir.display())
        });
        with(job, warning).map_err(|error| match error {
            Error::Output { .. } if damaged => {
                let reason = "holds tokens that are damaged, beside files that fastpack did not write; remove it, or name another `cache_dir`".to_owned();
                Error::Output { path: dir.clone(), reason }
            }
            other => other,
        })
    }

    /// The tokens of `found`, made unless they are there.
    fn make(&self, job: &mut Job, found: &Found, control: &Control) -> Result<Kept> {
        let now = job.options.now();
        in_folder(&self.output, &self.identity, (now, None), control, |folder| {
            if let JobTemplate::Ready(template) = &mut job.template {
                template.set_now(folder.now());
            }
            tokenize(folder, job, found, control)
        })?;
        kept(&self.output.dir)
    }
}

/// Writes the tokens of `found` down.
fn tokenize(folder: &mut Folder, job: &Job, found: &Found, control: &Control) -> Result<Report> {
    let log = Log::open(&folder.blocks())?;
    let mut about = About::new(job, found);
    let mut blocks = 0;
    let mut pieces = Vec::new();
    let seen =
        Intake::new(job, control).read(Blocks::new(found.clone()), Some(&log), |outcome| {
            blocks += 1;
            // What the rows would refuse is refused here: otherwise a bad record further down would be met first.
            for document in outcome.documents.iter() {
                fate(document, 0, &job.options, &mut pieces)?;
                pieces.clear();
            }
            Ok(())
        })?;
    about.read(job, seen);
    let report = about.alone(&job.options);
    let (bytes, blake3) = log.finish()?;
    let tokens = Tokens { bytes, blocks, blake3 };
    folder.finish(&report.to_json(), BTreeMap::new(), Some(tokens))?;
    Ok(report)
}

/// What tells the content of each file from others.
fn content(files: &[SourceFile], job: &Job, control: &Control) -> Result<Vec<FileContent>> {
    let ranks = Sources::new(files.iter().map(|file| Arc::clone(&file.path))).ranks();
    let mut contents = Vec::with_capacity(files.len());
    let mut files = files.iter();
    let next = || -> Result<_> { Ok(files.next()) };
    let worker = || {
        |file: &SourceFile| -> Result<FileContent> {
            let opened = regular::open(&file.path, Links::Followed);
            let opened = opened.map_err(Error::io(&*file.path))?;
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

/// What the template sees as the time of day, if it looks.
fn template_time(job: &Job) -> Option<NaiveDateTime> {
    match &job.template {
        JobTemplate::Ready(template) if template.tells_time() => Some(job.options.now()),
        _ => None,
    }
}
