//! Reads parts of documents back from the log, in the order of the file, whatever the order in which they are needed.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;
use std::thread;

use super::document_store::DocumentStore;
use super::entry::WORD;
use super::memory_budget::MemoryBudget;
use super::token_log::{LoggedBlock, TokenLog};
use crate::document::binary_form::DocumentHead;
use crate::document::documents::{Document, Documents};
use crate::document::ragged_columns::INPUTS;
use crate::error::{Error, Origin, Result};
use crate::util::control::Control;
use crate::util::start_thread;

/// The place of a piece that was read back: its index, the number of its `Documents`, and its index in them.
type PiecePosition = (usize, usize, usize);

/// Bytes between two parts that are read over rather than left out: a disk gives them in the time of asking again.
const GAP: u64 = 32 << 10;

/// Bytes that are read at once, if no document has more.
const MOST: u64 = 4 << 20;

/// Tokens of the documents that are loaded together, unless one document has more. About as many as a block has, so that the
/// allocator can reuse the memory of blocks that were freed. Much larger parts would take new memory from the system, while the
/// freed memory stays with the process.
const PART: u64 = 1 << 16;

/// Bytes of a document that is read in parts, as they are wanted: one that was cut into many pieces is wanted many times.
const LARGE: u64 = 1 << 20;

/// Runs of parts that the system is told of before they are read: a disk that knows of many requests gives three times
/// as much as with one at a time.
const AHEAD: usize = 128;

/// A part of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DocumentPart {
    /// The number of the document.
    pub document: u64,
    /// The first token of the part.
    pub start: u32,
    /// The number of tokens of the part.
    pub length: u32,
}

/// Parts that were read back, as documents of their own.
#[derive(Debug)]
pub struct LoadedParts {
    /// The parts from neighbouring blocks of one file.
    documents: Vec<Documents>,
    /// The place of each part in these documents.
    places: Vec<(usize, usize)>,
}

/// A part to be read, and the place of its document in the file.
#[derive(Clone, Copy)]
struct WantedPart {
    offset: u64,
    bytes: u64,
    segment: usize,
    /// The index of the part.
    index: usize,
}

/// A run: parts that are read at once, and their bytes in the file.
struct ReadRun<'a> {
    parts: &'a [WantedPart],
    bytes: Range<u64>,
}

impl<'a> ReadRun<'a> {
    /// The first parts of `wanted`, as many as lie near each other, and the rest.
    fn split_off(wanted: &'a [WantedPart]) -> Option<(Self, &'a [WantedPart])> {
        let first = wanted.first()?;
        let mut end = first.offset + first.bytes;
        let mut count = 1;
        for next in &wanted[1..] {
            if next.offset > end + GAP || next.offset + next.bytes > first.offset + MOST {
                break;
            }
            end = end.max(next.offset + next.bytes);
            count += 1;
        }
        let (parts, rest) = wanted.split_at(count);
        Some((Self { parts, bytes: first.offset..end }, rest))
    }

    /// True if the first document is so large that only wanted parts are read.
    fn is_large(&self) -> bool {
        self.parts[0].bytes > LARGE
    }

    /// Tells the system that it will be read.
    fn announce(&self, log: &TokenLog) {
        if !self.is_large() {
            log.announce(self.bytes.clone());
        }
    }
}

/// The runs of parts that are sorted by their places.
fn runs(mut wanted: &[WantedPart]) -> impl Iterator<Item = ReadRun<'_>> {
    std::iter::from_fn(move || {
        let (run, rest) = ReadRun::split_off(wanted)?;
        wanted = rest;
        Some(run)
    })
}

impl DocumentStore {
    /// Reads stretches back, on several threads: the ids of [`INPUTS`] in each, or if `whole` their documents with
    /// all columns.
    ///
    /// # Panics
    ///
    /// If the store has no log.
    pub fn load(
        &self,
        stretches: &[DocumentPart],
        whole: bool,
        threads: NonZeroUsize,
        control: &Control,
    ) -> Result<LoadedParts> {
        let MemoryBudget { log, bytes: budget, .. } =
            self.budget.as_ref().expect("a store with a log");
        log.bring(*budget, control)?;
        let mut wanted: Vec<WantedPart> = stretches
            .iter()
            .enumerate()
            .map(|(index, stretch)| self.wanted(log, stretch.document, index))
            .collect();
        wanted.sort_unstable_by_key(|wanted| (wanted.offset, wanted.index));
        let share = wanted.len().div_ceil(threads.get()).max(1);
        let parts = thread::scope(|scope| {
            let read = |share| self.read(log, share, stretches, whole, control);
            // If the system gives no thread, this one does the work.
            let threads: Vec<_> = wanted
                .chunks(share)
                .map(|share| {
                    (share, start_thread::start_scoped(scope, "fastpack-load", move || read(share)))
                })
                .collect();
            let join =
                |(share, thread): (_, std::io::Result<thread::ScopedJoinHandle<_>>)| match thread {
                    Ok(thread) => {
                        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                    }
                    Err(_) => read(share),
                };
            threads.into_iter().map(join).collect::<Result<Vec<_>>>()
        })?;
        let mut loaded =
            LoadedParts { documents: Vec::new(), places: vec![(0, 0); stretches.len()] };
        for (documents, places) in parts {
            let first = loaded.documents.len();
            loaded.documents.extend(documents);
            for (index, part, at) in places {
                loaded.places[index] = (first + part, at);
            }
        }
        Ok(loaded)
    }

    /// The input file and line of the document `number`.
    ///
    /// # Panics
    ///
    /// If it has to be read back, and the store has no log.
    pub fn origin(&self, number: u64) -> Origin {
        let (segment, index) = self.find(number);
        if let Some(documents) = &segment.documents {
            return documents.document(index).origin();
        }
        let MemoryBudget { log, .. } = self.budget.as_ref().expect("a store with a log");
        let wanted = self.wanted(log, number, 0);
        let path = Arc::clone(&self.place(wanted.segment).path);
        // The origin is only asked for in messages about another fault. If the log cannot be read, reading the document fails next.
        let line = self.head(log, &wanted).map_or(0, |head| head.line());
        Origin { path, line }
    }

    fn place(&self, segment: usize) -> &LoggedBlock {
        self.segments[segment].place.as_ref().expect("a place in the log")
    }

    /// The part of a document before its runs of trained tokens.
    fn head(&self, log: &TokenLog, wanted: &WantedPart) -> Result<DocumentHead> {
        let columns = self.place(wanted.segment).names.len();
        let words = log.words(wanted.offset, DocumentHead::words(columns))?;
        DocumentHead::read(&words, columns).ok_or_else(|| damaged(log))
    }

    fn wanted(&self, log: &TokenLog, document: u64, index: usize) -> WantedPart {
        let after = self.segments.partition_point(|it| it.numbers.number(0) <= document);
        let segment = after.checked_sub(1).expect("a document of the store");
        let place = self.place(segment);
        let at = self.segments[segment].numbers.index(document);
        let start = if at == 0 { 0 } else { place.ends[at - 1] };
        WantedPart {
            offset: log.offset(place) + WORD as u64 * u64::from(start),
            bytes: WORD as u64 * u64::from(place.ends[at] - start),
            segment,
            index,
        }
    }

    /// The bytes of a document in the log.
    ///
    /// # Panics
    ///
    /// If the store has no log.
    pub(crate) fn logged_bytes(&self, document: u64) -> u64 {
        let MemoryBudget { log, .. } = self.budget.as_ref().expect("a store with a log");
        self.wanted(log, document, 0).bytes
    }

    /// Reads some stretches: the documents, and for each its index, which of the documents, and its place there.
    fn read(
        &self,
        log: &TokenLog,
        wanted: &[WantedPart],
        stretches: &[DocumentPart],
        whole: bool,
        control: &Control,
    ) -> Result<(Vec<Documents>, Vec<PiecePosition>)> {
        let mut read: Vec<Documents> = Vec::new();
        let mut places = Vec::with_capacity(wanted.len());
        let mut ahead = runs(wanted);
        ahead.by_ref().take(AHEAD).for_each(|run| run.announce(log));
        for run in runs(wanted) {
            control.tick()?;
            if let Some(run) = ahead.next() {
                run.announce(log);
            }
            let Range { start: offset, end } = run.bytes;
            let words = if run.is_large() {
                Vec::new()
            } else {
                log.words(offset, words_in(end - offset))?
            };
            for one in run.parts {
                let stretch = stretches[one.index];
                let LoggedBlock { path, names, .. } = self.place(one.segment);
                let columns = if whole { &names[..] } else { &[INPUTS] };
                let goes_on = |documents: &Documents| {
                    Arc::ptr_eq(documents.path(), path) && documents.tokens(INPUTS) < PART
                };
                if !read.last().is_some_and(goes_on) {
                    read.push(Documents::new(Arc::clone(path), columns));
                }
                let at = read.len() - 1;
                let documents = &mut read[at];
                let (start, length) = (stretch.start as usize, stretch.length as usize);
                let pushed = if whole {
                    let document = if run.is_large() {
                        Cow::Owned(log.words(one.offset, words_in(one.bytes))?)
                    } else {
                        Cow::Borrowed(
                            &words[words_in(one.offset - offset)..][..words_in(one.bytes)],
                        )
                    };
                    documents.push_words(&document)
                } else if run.is_large() {
                    let head = self.head(log, one)?;
                    let document = log.words(one.offset, head.before_ids())?;
                    let ids = one.offset + (WORD * (head.before_ids() + start)) as u64;
                    documents.push_stretch(&head, &document, &log.words(ids, length)?, start)
                } else {
                    let from = words_in(one.offset - offset);
                    let document = &words[from..from + words_in(one.bytes)];
                    DocumentHead::read(document, names.len()).and_then(|head| {
                        let ids = document.get(head.before_ids() + start..)?.get(..length)?;
                        documents.push_stretch(&head, document, ids, start)
                    })
                };
                pushed.ok_or_else(|| damaged(log))?;
                places.push((one.index, at, documents.len() - 1));
            }
        }
        Ok((read, places))
    }
}

/// The number of words in so many bytes, which fit into memory.
fn words_in(bytes: u64) -> usize {
    usize::try_from(bytes / WORD as u64).expect("a part of the file that fits into memory")
}

fn damaged(log: &TokenLog) -> Error {
    Error::io(log.path())(std::io::ErrorKind::InvalidData.into())
}

impl LoadedParts {
    /// The stretch `index` of those asked for, as a document that begins with its first token, or the whole document.
    pub fn document(&self, index: usize) -> Document<'_> {
        let (documents, at) = self.places[index];
        self.documents[documents].document(at)
    }
}
