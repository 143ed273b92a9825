//! [`Plan`]: offsets over pieces of documents, the result of every strategy.

use std::num::NonZeroU32;
use std::ops::Range;

use super::cancel_checks::TICK;
use super::pieces::{Piece, PieceColumns, PieceSizes, Pieces};
use crate::config::{Alignment, PackOptions};
use crate::error::Result;
use crate::util::control::Control;

/// The rows and their order, as offsets over pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    max_length: NonZeroU32,
    /// The room that a piece takes is a multiple of this.
    align: Alignment,
    first_document: u64,
    offsets: Vec<u64>,
    members: Vec<u32>,
    starts: Vec<u32>,
    lengths: Vec<u32>,
    /// The sizes of each piece after the objective; left out while pieces stand as in their documents.
    sizes: Option<Vec<PieceSizes>>,
    /// The tokens in all rows, without repeated rows.
    tokens: u64,
    repeated: usize,
}

/// The columns of a [`Plan`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanColumns {
    /// Row `i` holds the pieces `offsets[i]..offsets[i + 1]`: one offset more than rows.
    pub offsets: Vec<u64>,
    /// The document of each piece, counted from [`Plan::first_document`].
    pub members: Vec<u32>,
    /// The first token of each piece in its document.
    pub starts: Vec<u32>,
    /// The number of tokens of each piece.
    pub lengths: Vec<u32>,
}

impl Plan {
    /// A plan without rows.
    pub fn new(max_length: NonZeroU32) -> Self {
        Self::starting_at(max_length, 0)
    }

    /// A plan without rows. Its document 0 is the document `first_document` of the store.
    ///
    /// A stream of more than 2³² documents gives each of its plans another first document.
    pub fn starting_at(max_length: NonZeroU32, first_document: u64) -> Self {
        Self {
            max_length,
            align: Alignment::default(),
            first_document,
            offsets: vec![0],
            members: Vec::new(),
            starts: Vec::new(),
            lengths: Vec::new(),
            sizes: None,
            tokens: 0,
            repeated: 0,
        }
    }

    /// An empty plan of the same documents, with the room of each piece rounded up to a multiple of `align` tokens.
    #[must_use]
    pub fn aligned_to(self, align: Option<NonZeroU32>) -> Self {
        Self {
            align: Alignment::to(align),
            ..Self::starting_at(self.max_length, self.first_document)
        }
    }

    /// The rows from `row` on, as a plan. Its document 0 is the document `first_document` of the store.
    ///
    /// # Panics
    ///
    /// If a document of these rows comes before `first_document`.
    #[must_use]
    pub fn split_off(&self, row: usize, first_document: u64) -> Self {
        let step = u32::try_from(first_document - self.first_document);
        let step = step.expect("the documents of a plan are counted by a u32");
        let mut rest =
            Self { align: self.align, ..Self::starting_at(self.max_length, first_document) };
        for row in row..self.rows() {
            let pieces = self.row(row).map(|piece| Piece {
                document: piece.document.checked_sub(step).expect("at most the first document"),
                ..piece
            });
            rest.push(&pieces.collect::<Vec<_>>());
        }
        rest
    }

    /// The plan whose rows hold the pieces at `indices` and end at `offsets`. Empty rows are padding.
    pub(super) fn gathered(
        options: &PackOptions,
        pieces: &Pieces,
        indices: Vec<u32>,
        offsets: Vec<u64>,
        repeated: usize,
        control: &Control,
    ) -> Result<Self> {
        let PieceColumns { documents, starts, lengths, sizes } = pieces.gather(indices, control)?;
        let mut plan = Self {
            members: documents,
            starts,
            lengths,
            sizes,
            repeated,
            ..Self::new(options.row_limit()).aligned_to(options.align_documents_to)
        };
        let first = offsets.len() - 1 - repeated;
        for (at, row) in offsets.windows(2).enumerate().filter(|(_, row)| row[0] < row[1]) {
            if at % TICK == 0 {
                control.tick()?;
            }
            let tokens = plan.checked(position(row[0])..position(row[1]));
            plan.tokens += if at < first { tokens } else { 0 };
        }
        plan.offsets = offsets;
        Ok(plan)
    }

    /// Appends a row.
    ///
    /// # Panics
    ///
    /// If it is empty, or holds more than `max_length` tokens.
    pub fn push(&mut self, row: &[Piece]) {
        for piece in row {
            if self.sizes.is_none() && piece.sizes != PieceSizes::default() {
                self.sizes = Some(vec![PieceSizes::default(); self.lengths.len()]);
            }
            if let Some(sizes) = &mut self.sizes {
                sizes.push(piece.sizes);
            }
            self.members.push(piece.document);
            self.starts.push(piece.start);
            self.lengths.push(piece.length);
        }
        self.tokens += self.checked(position(self.offsets[self.rows()])..self.lengths.len());
        self.offsets.push(self.lengths.len() as u64);
    }

    /// Appends a row without pieces: it is padding.
    pub(crate) fn push_padding(&mut self) {
        self.offsets.push(self.lengths.len() as u64);
    }

    /// The tokens of a row. Panics if the row breaks a limit.
    fn checked(&self, row: Range<usize>) -> u64 {
        assert!(!row.is_empty(), "a row holds at least one piece");
        let lengths = &self.lengths[row.clone()];
        let tokens: u64 = lengths.iter().copied().map(u64::from).sum();
        let room = match &self.sizes {
            None if self.align == Alignment::default() => tokens,
            _ => row.map(|at| u64::from(self.room(self.tokens_at(at)))).sum(),
        };
        let most = u64::from(self.max_length.get());
        assert!(room <= most, "a row holds at most `max_length` tokens");
        tokens
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The number of rows without the repeated rows at the end.
    pub fn distinct_rows(&self) -> usize {
        self.rows() - self.repeated
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows() == 0
    }

    /// The pieces of one row, in their order.
    pub fn row(&self, row: usize) -> impl ExactSizeIterator<Item = Piece> {
        self.pieces(row..row + 1)
    }

    /// The pieces of neighbouring rows, in their order.
    pub fn pieces(&self, rows: Range<usize>) -> impl ExactSizeIterator<Item = Piece> {
        self.span(rows).map(|at| Piece {
            document: self.members[at],
            start: self.starts[at],
            length: self.lengths[at],
            sizes: self.sizes.as_ref().map_or_else(PieceSizes::default, |all| all[at]),
        })
    }

    /// The tokens of the piece at an index in its row.
    fn tokens_at(&self, at: usize) -> u32 {
        match self.sizes.as_ref().map_or(0, |all| all[at].tokens) {
            0 => self.lengths[at],
            tokens => tokens,
        }
    }

    /// The lengths of the pieces of neighbouring rows in their documents, in their order.
    pub fn lengths_of(&self, rows: Range<usize>) -> &[u32] {
        &self.lengths[self.span(rows)]
    }

    /// The number of tokens in one row.
    pub fn tokens_of(&self, row: usize) -> usize {
        self.lengths_of(row..row + 1).iter().map(|&length| length as usize).sum()
    }

    /// The tokens that a piece of `length` tokens takes in its row.
    pub fn room(&self, length: u32) -> u32 {
        self.align.room(length)
    }

    /// The room that the pieces in one row take, in tokens.
    pub fn padded_length_of_row(&self, row: usize) -> usize {
        if self.sizes.is_none() {
            let lengths = self.lengths_of(row..row + 1).iter();
            return lengths.map(|&length| self.room(length) as usize).sum();
        }
        self.span(row..row + 1).map(|at| self.room(self.tokens_at(at)) as usize).sum()
    }

    /// The targets of the pieces in one row, in tokens.
    pub fn targets_of(&self, row: usize) -> usize {
        let sizes = self.sizes.as_ref().map_or(&[][..], |all| &all[self.span(row..row + 1)]);
        sizes.iter().map(|sizes| sizes.targets as usize).sum()
    }

    /// The cost of attention in one row: the sum of the squares of the room of each piece.
    pub fn attention_cost(&self, row: usize) -> u64 {
        self.span(row..row + 1).map(|at| u64::from(self.room(self.tokens_at(at))).pow(2)).sum()
    }

    /// The number of pieces in the rows before `row`.
    pub fn first_piece(&self, row: usize) -> usize {
        position(self.offsets[row])
    }

    fn span(&self, rows: Range<usize>) -> Range<usize> {
        self.first_piece(rows.start)..self.first_piece(rows.end)
    }

    /// Row `i` holds the pieces `offsets[i]..offsets[i + 1]`: one offset more than rows.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// The document of each piece, counted from [`Plan::first_document`].
    pub fn members(&self) -> &[u32] {
        &self.members
    }

    /// The columns of the plan.
    pub fn into_columns(self) -> PlanColumns {
        let Self { offsets, members, starts, lengths, .. } = self;
        PlanColumns { offsets, members, starts, lengths }
    }

    /// The number in the store of the members' document 0.
    pub fn first_document(&self) -> u64 {
        self.first_document
    }

    /// The tokens in all rows, without repeated rows.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// The most tokens of a row.
    pub fn max_length(&self) -> NonZeroU32 {
        self.max_length
    }

    /// The share of the rows' capacity that holds tokens, from 0 to 1; 0 without rows.
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people: 53 bits are plenty")]
    pub fn fill(&self) -> f64 {
        if self.is_empty() {
            return 0.0;
        }
        self.tokens as f64 / (self.rows() as f64 * f64::from(self.max_length.get()))
    }
}

fn position(offset: u64) -> usize {
    usize::try_from(offset).expect("an offset into memory")
}
