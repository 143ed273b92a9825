//! Documents as 32-bit words and back: how they lie in a file.
//!
//! An encoded document is its line, its turn and whether it is text, the hash of its content, its trained runs, and the ids of its columns, in this order. So all but
//! the ids is read at once where a stretch of a long document is wanted.

use super::documents::{DocumentFacts, Documents};
use super::ragged_columns::Ragged;
use crate::record::TrainedRun;

/// Marks a document that was made of plain text. The bits above it are the number of its turn.
const TEXT: u32 = 1;

/// Words of an encoded document before the lengths of its columns: its line in two, marks, the number of its runs, and the hash of its
/// content in two.
pub(crate) const FIXED: usize = 6;

/// Words of a run.
const RUN: usize = 3;

/// The head of an encoded document: its line, marks and lengths, before its runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DocumentHead {
    line: u64,
    turn: u32,
    text: bool,
    runs: usize,
    content: u64,
    lengths: Vec<usize>,
}

impl DocumentHead {
    /// The number of words of a head, for documents of `columns` columns.
    pub(crate) fn words(columns: usize) -> usize {
        FIXED + columns
    }

    /// Reads the head of an encoded document; nothing where it has too few words.
    pub(crate) fn read(encoded: &[u32], columns: usize) -> Option<Self> {
        let &[low, high, marks, runs, content_low, content_high] =
            encoded.get(..FIXED)?.first_chunk()?;
        let whole = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let lengths = encoded.get(FIXED..FIXED + columns)?;
        Some(Self {
            line: whole(low, high),
            turn: marks >> 1,
            text: marks & TEXT != 0,
            runs: runs as usize,
            content: whole(content_low, content_high),
            lengths: lengths.iter().map(|&length| length as usize).collect(),
        })
    }

    /// The line of the document.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// The number of words of the document before the first id.
    pub(crate) fn before_ids(&self) -> usize {
        FIXED + self.lengths.len() + RUN * self.runs
    }
}

impl Documents {
    /// The number of words of all documents.
    pub(crate) fn words(&self) -> usize {
        let ids: usize = self.columns.iter().map(|(_, column)| column.ids.len()).sum();
        self.len() * DocumentHead::words(self.columns.len()) + RUN * self.runs.len() + ids
    }

    /// Appends one of the documents to `words`.
    pub(crate) fn write_words(&self, index: usize, words: &mut Vec<u32>) {
        // Every field by its name: one that is added must be written too.
        let Self { path: _, pass: _, columns, runs: _, facts } = self;
        let DocumentFacts { line, content, runs_end: _, turn, is_text } = facts[index];
        let count = |count: usize| u32::try_from(count).expect("lengths of documents are 32-bit");
        let runs = self.document(index).trained();
        let half = |half: u64| u32::try_from(half).expect("half of 64 bits");
        let halves = |whole: u64| [half(whole & u64::from(u32::MAX)), half(whole >> 32)];
        words.extend(halves(line));
        words.extend([turn << 1 | if is_text { TEXT } else { 0 }, count(runs.len())]);
        words.extend(halves(content));
        words.extend(columns.iter().map(|(_, column)| count(column.length(index))));
        words.extend(runs.iter().flat_map(|run| [run.start, run.end, run.weight.to_bits()]));
        for (_, column) in columns {
            words.extend_from_slice(column.document(index));
        }
    }

    /// Appends an encoded document; nothing is appended where it is not whole.
    pub(crate) fn push_words(&mut self, encoded: &[u32]) -> Option<()> {
        let head = DocumentHead::read(encoded, self.columns.len())?;
        let mut rest = encoded.get(head.before_ids()..)?;
        let mut columns = Vec::with_capacity(head.lengths.len());
        for &length in &head.lengths {
            columns.push(rest.get(..length)?);
            rest = &rest[length..];
        }
        let runs = encoded.get(DocumentHead::words(self.columns.len())..head.before_ids())?;
        self.push_encoded(&head, runs, &columns, 0);
        Some(())
    }

    /// Appends the tokens `ids`, which stand from token `start` on in the first column of the document that begins
    /// with `encoded`. The documents must have that column alone.
    pub(crate) fn push_stretch(
        &mut self,
        head: &DocumentHead,
        encoded: &[u32],
        ids: &[u32],
        start: usize,
    ) -> Option<()> {
        let runs = encoded.get(DocumentHead::words(head.lengths.len())..head.before_ids())?;
        self.push_encoded(head, runs, &[ids], start);
        Some(())
    }

    /// Appends columns of a document, the first from token `start` on.
    fn push_encoded(
        &mut self,
        head: &DocumentHead,
        runs: &[u32],
        columns: &[&[u32]],
        start: usize,
    ) {
        let small = |at: usize| u32::try_from(at).expect("lengths of documents are 32-bit");
        let (first, end) = (small(start), small(start + columns[0].len()));
        let runs = runs.chunks_exact(RUN).map(|run| TrainedRun {
            start: run[0].max(first) - first,
            end: run[1].min(end).saturating_sub(first),
            weight: f32::from_bits(run[2]),
        });
        self.push(columns, runs, head.line);
        self.mark_turn(head.turn);
        self.mark_content(self.len() - 1, head.content);
        if head.text {
            self.mark_text();
        }
    }

    /// The memory of the documents, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let Self { path: _, pass: _, columns, runs, facts } = self;
        let columns: usize = columns.iter().map(|(_, column)| column.memory()).sum();
        let runs = runs.capacity() * size_of::<TrainedRun>();
        (columns + runs + facts.capacity() * size_of::<DocumentFacts>()) as u64
    }
}

impl Ragged {
    fn memory(&self) -> usize {
        self.ids.capacity() * size_of::<u32>() + self.offsets.capacity() * size_of::<u64>()
    }
}
