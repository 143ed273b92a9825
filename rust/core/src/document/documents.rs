//! [`Documents`]: the documents of one file as columns, and [`Document`], one of them.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::document_pictures;
use super::document_pictures::DocumentPicture;
use super::ragged_columns::{ColumnName, INPUTS, PICTURES, Ragged, TURN_ENDS, ends};
use crate::error::Origin;
use crate::record::TrainedRun;
use crate::util::random::{hash_of_ids, key_of};

/// The pass over the input in which documents were read: random choices differ from pass to pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// The number of the epoch, from 0; other than 0 in streams alone.
    pub epoch: u64,
    /// The number of earlier reads of their source in the epoch, if it is repeated.
    pub repetition: u64,
}

/// One document, borrowed from where it is kept.
#[derive(Clone, Copy, Debug)]
pub struct Document<'a> {
    documents: &'a Documents,
    index: usize,
}

impl<'a> Document<'a> {
    /// The ids of a column.
    ///
    /// # Panics
    ///
    /// If the documents have no such column.
    pub fn column(&self, name: ColumnName) -> &'a [u32] {
        self.documents.column(name).document(self.index)
    }

    /// The numbers of a column; none if the documents have no such column.
    pub fn numbers(&self, name: ColumnName) -> &'a [u32] {
        let found = self.documents.columns.iter().find(|(column, _)| *column == name);
        found.map_or(&[], |(_, numbers)| numbers.document(self.index))
    }

    /// The number of tokens before each place at which it may be cut; empty unless the places were requested.
    pub fn turn_ends(&self) -> &'a [u32] {
        self.numbers(TURN_ENDS)
    }

    /// Its pictures, in the order of their tokens.
    pub fn pictures(&self) -> impl Iterator<Item = DocumentPicture<'a>> + use<'a> {
        document_pictures::read(self.numbers(PICTURES))
    }

    /// The pictures that are whole in a stretch of its tokens.
    pub(crate) fn pictures_in(
        &self,
        stretch: Range<u32>,
    ) -> impl Iterator<Item = DocumentPicture<'a>> + use<'a> {
        let is_inside =
            move |tokens: &Range<u32>| stretch.start <= tokens.start && tokens.end <= stretch.end;
        self.pictures().filter(move |picture| is_inside(&picture.tokens))
    }

    /// The trained runs of the first column: ascending, disjoint, none empty.
    pub fn trained(&self) -> &'a [TrainedRun] {
        self.documents.runs_of(self.index)
    }

    /// The number of labels in a piece of `length` tokens: its first never has one, nothing predicts it.
    pub fn labels(&self, start: u32, length: u32) -> u64 {
        let (first, end) = (start + 1, start + length);
        let runs = self.trained();
        let inside = runs[runs.partition_point(|run| run.end <= first)..].iter();
        let inside = inside.take_while(|run| run.start < end);
        inside.map(|run| u64::from(run.end.min(end) - run.start.max(first))).sum()
    }

    /// A weight of some of its tokens that is not 1, if it has one.
    pub fn fractional_weight(&self) -> Option<f32> {
        let weights = self.trained().iter().map(|run| run.weight);
        weights.into_iter().find(|weight| weight.to_bits() != 1_f32.to_bits())
    }

    /// True if the documents were made of plain text, which has no turns to break.
    pub fn is_text(&self) -> bool {
        self.documents.facts[self.index].is_text
    }

    /// The pass over the input in which it was read.
    pub fn pass(&self) -> Pass {
        self.documents.pass
    }

    /// The key of its random numbers: a hash of the seed, the pass and its ids. `copy` is the number of the copy that one run makes, from 0.
    ///
    /// Neither the place of the document among others, nor the way by which it came, nor the thread changes it.
    pub(crate) fn key(&self, seed: u64, copy: u64) -> u64 {
        let pass = self.pass();
        key_of(&[seed, copy + pass.epoch, pass.repetition, hash_of_ids(self.column(INPUTS))])
    }

    /// It alone, read at another line.
    pub(crate) fn at_line(&self, line: u64) -> Documents {
        let mut alone = self.documents.select(&[self.index]);
        alone.facts[0].line = line;
        alone
    }

    /// The number of the last turn of its record that it trains, among the messages of the assistant, from 1; 0 if it is
    /// of no conversation, or trains none.
    pub fn turn(&self) -> u32 {
        self.documents.facts[self.index].turn
    }

    /// The hash of the fields that the shape of its record reads; 0 if it was not asked for.
    pub fn content(&self) -> u64 {
        self.documents.facts[self.index].content
    }

    /// The place of its record.
    pub fn origin(&self) -> Origin {
        self.documents.origin_of(self.documents.facts[self.index].line)
    }
}

/// Documents of one file, in input order, as columns.
#[derive(Clone, Debug)]
pub struct Documents {
    pub(super) path: Arc<Path>,
    pub(super) pass: Pass,
    pub(super) columns: Vec<(ColumnName, Ragged)>,
    pub(super) runs: Vec<TrainedRun>,
    pub(super) facts: Vec<DocumentFacts>,
}

/// The facts of a document that have one size, in one list: of a file with one document, each list costs more than it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct DocumentFacts {
    pub(super) line: u64,
    pub(super) content: u64,
    /// The end of its runs among those of all documents.
    pub(super) runs_end: usize,
    pub(super) turn: u32,
    pub(super) is_text: bool,
}

impl Documents {
    /// No documents yet, of the file `path`, with these columns.
    pub fn new(path: Arc<Path>, columns: &[ColumnName]) -> Self {
        let columns = columns.iter().map(|&name| (name, Ragged::default())).collect();
        Self { path, pass: Pass::default(), columns, runs: Vec::new(), facts: Vec::new() }
    }

    /// Makes room for the documents of `bytes` bytes of text, or of the first of them: lists that grow are copied again and again
    /// while they are short.
    #[must_use]
    pub fn with_room_for(mut self, bytes: u64) -> Self {
        const MOST: usize = 1 << 20;
        // Tokens of three bytes, and documents of 256.
        let bytes = usize::try_from(bytes).map_or(MOST, |bytes| bytes.min(MOST));
        let (ids, documents) = (bytes / 3, bytes / 256);
        for (_, column) in &mut self.columns {
            column.ids.reserve(ids);
            column.offsets.reserve(documents);
        }
        self.runs.reserve(documents);
        self.facts.reserve(documents);
        self
    }

    /// Documents whose lists, if they are few, take no room beyond their content: a file of one document leaves more room than it
    /// has tokens.
    #[must_use]
    pub fn fitted(mut self) -> Self {
        const FEW: usize = 16;
        if self.len() > FEW {
            return self;
        }
        for (_, column) in &mut self.columns {
            column.ids.shrink_to_fit();
            column.offsets.shrink_to_fit();
        }
        self.columns.shrink_to_fit();
        self.runs.shrink_to_fit();
        self.facts.shrink_to_fit();
        self
    }

    /// Appends a document: the ids of each column in the columns' order, its trained runs and its line.
    ///
    /// # Panics
    ///
    /// If `ids` has another number of columns.
    pub fn push(
        &mut self,
        ids: &[&[u32]],
        trained: impl IntoIterator<Item = TrainedRun>,
        line: u64,
    ) {
        assert_eq!(ids.len(), self.columns.len(), "one list of ids a column");
        for ((_, column), ids) in self.columns.iter_mut().zip(ids) {
            column.push(ids);
        }
        self.runs.extend(trained.into_iter().filter(|run| run.start < run.end));
        let runs_end = self.runs.len();
        self.facts.push(DocumentFacts { line, content: 0, runs_end, turn: 0, is_text: false });
    }

    /// Remembers that the document pushed last was made of plain text.
    pub fn mark_text(&mut self) {
        if let Some(last) = self.facts.last_mut() {
            last.is_text = true;
        }
    }

    /// Remembers the [turn](Document::turn) of the document pushed last.
    pub fn mark_turn(&mut self, turn: u32) {
        if let Some(last) = self.facts.last_mut() {
            last.turn = turn;
        }
    }

    /// Remembers the [content](Document::content) of the record that the documents from the number `first` on are of.
    pub fn mark_content(&mut self, first: usize, content: u64) {
        for facts in &mut self.facts[first..] {
            facts.content = content;
        }
    }

    /// The documents at `indices`, in that order.
    #[must_use]
    pub fn select(&self, indices: &[usize]) -> Self {
        let runs: Vec<&[TrainedRun]> = indices.iter().map(|&index| self.runs_of(index)).collect();
        let facts = indices.iter().zip(ends(&runs).skip(1));
        let column = |(name, column): &(ColumnName, Ragged)| (*name, column.select(indices));
        Self {
            path: Arc::clone(&self.path),
            pass: self.pass,
            columns: self.columns.iter().map(column).collect(),
            facts: facts
                .map(|(&index, runs_end)| DocumentFacts { runs_end, ..self.facts[index] })
                .collect(),
            runs: runs.concat(),
        }
    }

    fn runs_of(&self, index: usize) -> &[TrainedRun] {
        let begin = index.checked_sub(1).map_or(0, |before| self.facts[before].runs_end);
        &self.runs[begin..self.facts[index].runs_end]
    }

    /// Sets the pass in which the documents were read.
    #[must_use]
    pub fn of_pass(self, pass: Pass) -> Self {
        Self { pass, ..self }
    }

    /// The pass in which they were read.
    pub fn pass(&self) -> Pass {
        self.pass
    }

    /// The file that they are of.
    pub fn path(&self) -> &Arc<Path> {
        &self.path
    }

    /// The place of the record at `line`.
    pub fn origin_of(&self, line: u64) -> Origin {
        Origin { path: Arc::clone(&self.path), line }
    }

    /// The number of documents.
    pub fn len(&self) -> usize {
        self.facts.len()
    }

    /// True if there are no documents.
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty()
    }

    /// The names of their columns, in their order.
    pub fn names(&self) -> Vec<ColumnName> {
        self.columns.iter().map(|(name, _)| *name).collect()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Document<'_>> {
        (0..self.len()).map(|index| self.document(index))
    }

    /// One of them.
    pub fn document(&self, index: usize) -> Document<'_> {
        Document { documents: self, index }
    }

    /// True if the documents have this column.
    pub fn has(&self, name: ColumnName) -> bool {
        self.columns.iter().any(|(column, _)| *column == name)
    }

    /// A column by its name.
    ///
    /// # Panics
    ///
    /// If there is no such column.
    pub fn column(&self, name: ColumnName) -> &Ragged {
        let found = self.columns.iter().find(|(column, _)| *column == name);
        &found.expect("documents of one run have the same columns").1
    }

    /// The number of ids in a column.
    pub fn tokens(&self, name: ColumnName) -> u64 {
        self.column(name).ids.len() as u64
    }
}
