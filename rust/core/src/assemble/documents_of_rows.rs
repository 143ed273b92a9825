//! [`DocumentsOfRows`]: the documents that rows are copied from, in memory or read back from the log.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::ops::Range;

use crate::document::store::{DocumentPart, DocumentStore, LoadedParts};
use crate::document::{Document, DocumentPicture, INPUTS};
use crate::error::Result;
use crate::pack::{PieceSizes, Plan};
use crate::util::control::Control;

/// The documents of neighbouring rows of a plan.
#[derive(Debug)]
pub struct DocumentsOfRows<'a> {
    store: &'a DocumentStore,
    plan: &'a Plan,
    /// The documents that were read back, and the index of their first piece in the plan.
    loaded: Option<(usize, LoadedParts)>,
    /// True if whole documents were read back.
    whole: bool,
    /// The store of each row, and its document that the row counts from, where they have stores of their own.
    row_stores: Vec<(&'a DocumentStore, u64)>,
}

/// A piece of a row, with its tokens. A plan has pieces by numbers alone; rows are copied from these.
#[derive(Clone, Copy, Debug)]
pub struct DocumentSlice<'a> {
    /// The document, or the part of it that was read back.
    pub document: Document<'a>,
    /// The first token of the piece in that document.
    pub start: u32,
    /// The number of tokens of the piece.
    pub length: u32,
    /// The first token of the piece in the whole document.
    pub first: u32,
    /// The number of tokens of the piece in its row.
    pub tokens: u32,
    /// Its sizes after the objective.
    pub sizes: PieceSizes,
}

impl<'a> DocumentSlice<'a> {
    /// The pictures that are whole in the piece.
    pub(super) fn pictures(&self) -> impl Iterator<Item = DocumentPicture<'a>> + use<'a> {
        self.document.pictures_in(self.first..self.first + self.length)
    }

    /// The bytes of its pictures that rows embed.
    pub(crate) fn embedded_bytes(&self) -> u64 {
        self.pictures().filter_map(|picture| picture.bytes).map(u64::from).sum()
    }
}

impl<'a> DocumentsOfRows<'a> {
    /// Documents that are in memory.
    pub fn kept(store: &'a DocumentStore, plan: &'a Plan) -> Self {
        Self { store, plan, loaded: None, whole: false, row_stores: Vec::new() }
    }

    /// Documents in memory, for rows each with a store of its own and the document that it counts from.
    ///
    /// # Panics
    ///
    /// If there are no rows, or not as many stores.
    pub(crate) fn from_stores(row_stores: Vec<(&'a DocumentStore, u64)>, plan: &'a Plan) -> Self {
        assert_eq!(row_stores.len(), plan.rows(), "a store for each row");
        let store = row_stores.first().expect("at least one row").0;
        Self { store, plan, loaded: None, whole: false, row_stores }
    }

    /// The documents of `rows`, read back on several threads unless they are in memory: their ids, or if `whole` all
    /// of their columns.
    pub fn of(
        store: &'a DocumentStore,
        plan: &'a Plan,
        rows: Range<usize>,
        whole: bool,
        threads: NonZeroUsize,
        control: &Control,
    ) -> Result<Self> {
        if !store.is_spilled() {
            return Ok(Self::kept(store, plan));
        }
        let first = plan.first_piece(rows.start);
        let stretches: Vec<DocumentPart> = plan
            .pieces(rows)
            .map(|piece| DocumentPart {
                document: plan.first_document() + u64::from(piece.document),
                start: piece.start,
                length: piece.length,
            })
            .collect();
        let loaded = store.load(&stretches, whole, threads, control)?;
        Ok(Self { store, plan, loaded: Some((first, loaded)), whole, row_stores: Vec::new() })
    }

    /// The pieces of some of the rows, with their tokens in the processor's caches.
    ///
    /// Documents of a row lie anywhere in memory, and a column that is copied from them waits for each. Here, the waits for
    /// many of them overlap, and all columns find them.
    pub(super) fn fetch(&self, rows: Range<usize>) -> Vec<DocumentSlice<'_>> {
        /// Tokens of a line of the caches.
        const LINE: usize = 16;
        let document_slices: Vec<DocumentSlice<'_>> = self.pieces(rows).collect();
        let mut touched = 0;
        for DocumentSlice { document, start, length, .. } in &document_slices {
            let tokens =
                document.column(INPUTS).iter().skip(*start as usize).take(*length as usize);
            touched ^= tokens.step_by(LINE).fold(0, |all, token| all ^ token);
        }
        black_box(touched);
        document_slices
    }

    /// The plan of the rows.
    pub fn plan(&self) -> &'a Plan {
        self.plan
    }

    /// The pieces of some of the rows, in their order.
    ///
    /// # Panics
    ///
    /// If the rows were not read back, or the store has released one of their documents.
    pub fn pieces(&self, rows: Range<usize>) -> impl Iterator<Item = DocumentSlice<'_>> {
        let first = self.plan.first_piece(rows.start);
        let mut row = rows.start;
        self.plan.pieces(rows).zip(first..).map(move |(piece, at)| {
            let (length, tokens, sizes) = (piece.length, piece.tokens(), piece.sizes);
            let first = piece.start;
            if !self.row_stores.is_empty() {
                while self.plan.first_piece(row + 1) <= at {
                    row += 1;
                }
                let (store, zeroth) = self.row_stores[row];
                let document = store.document(zeroth + u64::from(piece.document));
                return DocumentSlice { document, start: first, length, first, tokens, sizes };
            }
            if let Some((zeroth, loaded)) = &self.loaded {
                let document = loaded.document(at - zeroth);
                let start = if self.whole { first } else { 0 };
                return DocumentSlice { document, start, length, first, tokens, sizes };
            }
            let number = self.plan.first_document() + u64::from(piece.document);
            let document = self.store.document(number);
            DocumentSlice { document, start: first, length, first, tokens, sizes }
        })
    }
}
