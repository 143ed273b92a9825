//! [`NewFiles`]: the files, and the lines of files, that a finished folder was not packed from yet.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::iter;
use std::sync::Arc;

use super::input_hashes::{InputHashes, joined};
use super::pack_dir::state;
use crate::config::Appending;
use crate::config::identity::FileState;
use crate::error::{Error, Result};
use crate::pipeline::documents::shape_recogniser::chooser;
use crate::pipeline::job::Job;
use crate::report::listed_path::ListedPath;
use crate::sink::FinishedOutput;
use crate::source::{
    Block, Blocks, FoundFiles, InputBlocks, LineRange, SourceFile, is_line_file, line_of,
};
use crate::util::control::Control;
use crate::util::disk::hex_hash::HexHash;
use crate::util::message::ShownPath;
use crate::util::threads_in_order::ordered;

/// The files that a finished folder was not packed from yet, and the lines by which others have grown.
pub(super) struct NewFiles {
    /// The files and lines to read. Where all tokens are planned again, a file that grew is read as a whole, and the files are in the
    /// order of `all`.
    pub(super) found: FoundFiles,
    /// The states of all files: those of the folder first.
    pub(super) all: BTreeMap<ListedPath, FileState>,
    /// The number of files that the folder was not packed from at all.
    pub(super) count: u64,
    /// The bytes of these files, and those by which others have grown.
    pub(super) bytes: u64,
}

impl NewFiles {
    /// Compares the files that were found with those of the folder, by size and time, or else by their content.
    ///
    /// Fails with [`Error::Option`] for a file of the folder that has changed. A line file that has grown is new from there on, if its
    /// lines before are as they were.
    pub(super) fn find(
        old: &FinishedOutput,
        known: &BTreeMap<ListedPath, FileState>,
        appending: Appending,
        found: FoundFiles,
        job: &Job,
        control: &Control,
    ) -> Result<Self> {
        let reader = OldContent { job, sources: &found, control };
        let (mut all, mut new, mut count, mut bytes) = (known.clone(), Vec::new(), 0, 0);
        for file in &found.files {
            let path = ListedPath::from(&file.path);
            let now = FileState { place: all.len() as u64, ..state(file) };
            let Some(before) = known.get(&path) else {
                new.push((now.place, file.clone()));
                all.insert(path, now);
                count += 1;
                bytes += file.size;
                continue;
            };
            let now = FileState { place: before.place, grown: before.grown.clone(), ..now };
            if *before == now {
                continue;
            }
            if file.size > before.size && !is_line_file(file)? {
                return Err(grown_table(appending, file));
            }
            let is_as_before = file.size >= before.size
                && reader.hash(file, before)? == old.content().get(&path).copied();
            if !is_as_before {
                return Err(changed(appending, file, "which has changed since it was packed"));
            }
            if file.size == before.size {
                all.insert(path, now);
                continue;
            }
            let Some(lines) = reader.lines_behind(file, before.size)? else {
                return Err(changed(
                    appending,
                    file,
                    "whose last line was continued since it was packed",
                ));
            };
            bytes += file.size - before.size;
            let (lines, now) = match appending {
                Appending::Rows => {
                    let grown = before.grown.iter().copied().chain([before.size]).collect();
                    (lines, FileState { grown, ..now })
                }
                // From the beginning its blocks are those of one job over the whole file.
                Appending::Tokens => (LineRange { bytes: 0..file.size, first: 1 }, now),
            };
            new.push((now.place, SourceFile { lines: Some(lines), ..file.clone() }));
            all.insert(path, now);
        }
        if appending == Appending::Tokens {
            new.sort_by_key(|(place, _)| *place);
        }
        let files = new.into_iter().map(|(_, file)| file).collect();
        Ok(Self { found: FoundFiles { files, ..found }, all, count, bytes })
    }
}

/// The hashes of the content of all files, of which those of the new files and lines are `new`.
pub(super) fn with_new_content(
    old: &FinishedOutput,
    new: BTreeMap<ListedPath, HexHash>,
) -> BTreeMap<ListedPath, HexHash> {
    let mut content = old.content().clone();
    for (path, hash) in new {
        let whole = content.get(&path).map_or(hash, |it| joined(it, &hash));
        content.insert(path, whole);
    }
    content
}

/// The error of an append that is refused.
pub(super) fn refused(appending: Appending, reason: impl std::fmt::Display) -> Error {
    Error::option("exists", format!("is `{}`, which {reason}", appending.name()))
}

/// The error of a file that is not as it was packed; `fault` says what is wrong with it.
fn changed(appending: Appending, file: &SourceFile, fault: &str) -> Error {
    let path = ShownPath(&file.path);
    let remedy = "put what is new into a file of its own, or pack all files again";
    refused(appending, format!("cannot take `{path}`, {fault}; {remedy}"))
}

/// The error of a file that has grown, but cannot be read from where it ended.
fn grown_table(appending: Appending, file: &SourceFile) -> Error {
    let fault = format!(
        "which has grown since it was packed: only JSON Lines without compression are read from where they ended, and not `{}`",
        file.format
    );
    changed(appending, file, &fault)
}

/// Reads the content of files again as it was read when they were packed.
struct OldContent<'a> {
    job: &'a Job,
    sources: &'a FoundFiles,
    control: &'a Control,
}

impl OldContent<'_> {
    /// The hash of what was read of a file in the state `before`; `None` if there was nothing.
    fn hash(&self, file: &SourceFile, before: &FileState) -> Result<Option<HexHash>> {
        if before.grown.is_empty() && file.size == before.size {
            return self.hash_of(file.clone());
        }
        let starts = iter::once(0).chain(before.grown.iter().copied());
        let ends = before.grown.iter().copied().chain([before.size]);
        let mut whole = None;
        for bytes in starts.zip(ends).map(|(start, end)| start..end) {
            // The number of a line is no part of its content, but a mark at the beginning of the file is none.
            let first = if bytes.start == 0 { 1 } else { 2 };
            let lines = Some(LineRange { bytes, first });
            let hash = self.hash_of(SourceFile { lines, ..file.clone() })?;
            whole = match (whole, hash) {
                (Some(before), Some(later)) => Some(joined(&before, &later)),
                (before, later) => before.or(later),
            };
        }
        Ok(whole)
    }

    fn hash_of(&self, file: SourceFile) -> Result<Option<HexHash>> {
        let path = Arc::clone(&file.path);
        let alone = FoundFiles { files: vec![file], ..self.sources.clone() };
        let mut blocks = Blocks::new(alone);
        if self.job.transform.is_empty() {
            let tokens = &self.job.options.tokens;
            blocks.choose_columns(chooser(tokens.documents, tokens.images.is_some()));
        }
        let mut content = InputHashes::default();
        let next = || {
            let block = blocks.next_block(self.control)?;
            let transformed = |block: Block| {
                let fields = &self.sources.sources[block.source].reading.fields;
                self.job.transform.apply(block, fields)
            };
            block.map(transformed).transpose()
        };
        let worker = || |block: Block| block.fingerprint();
        ordered(self.job.options.work.threads, next, worker, |hash| {
            content.add_block(&path, Some(&hash));
            Ok(())
        })?;
        Ok(content.into_hashes().into_values().next())
    }

    /// The lines of a file behind its first `size` bytes; `None` if the last line of these has grown.
    fn lines_behind(&self, file: &SourceFile, size: u64) -> Result<Option<LineRange>> {
        if let Some(last) = size.checked_sub(1) {
            let path = &*file.path;
            let mut edge = [0; 2];
            let mut opened = file.location.open_range(last..size + 1).map_err(Error::io(path))?;
            opened.seek(SeekFrom::Start(last)).map_err(Error::io(path))?;
            opened.read_exact(&mut edge).map_err(Error::io(path))?;
            if !edge.contains(&b'\n') {
                return Ok(None);
            }
        }
        let first = line_of(file, size, self.control)?;
        Ok(Some(LineRange { bytes: size..file.size, first }))
    }
}
