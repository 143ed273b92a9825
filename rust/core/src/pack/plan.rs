//! [`Plan`]: offsets over [`Piece`]s, the one form in which every kind of packing is handed on.

use std::num::NonZeroU32;
use std::ops::Range;

/// Pieces that are gathered at once: 48 KiB, what a core has closest at hand.
const NEAR: usize = 4096;

/// A stretch of a document: all of it, or the part that a row has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The document's number.
    pub document: u32,
    /// The first token.
    pub start: u32,
    /// The number of tokens, at least 1 and at most `max_length`.
    pub length: u32,
}

/// Which pieces share a row, and in which order: offsets over pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    max_length: NonZeroU32,
    first_document: u64,
    offsets: Vec<u64>,
    members: Vec<u32>,
    starts: Vec<u32>,
    lengths: Vec<u32>,
    tokens: u64,
}

impl Plan {
    /// A plan without rows.
    pub fn new(max_length: NonZeroU32) -> Self {
        Self::starting_at(max_length, 0)
    }

    /// A plan without rows whose document 0 is the document `first_document` of the store.
    ///
    /// A stream that outlives 2³² documents makes each of its plans with another first document.
    pub fn starting_at(max_length: NonZeroU32, first_document: u64) -> Self {
        Self {
            max_length,
            first_document,
            offsets: vec![0],
            members: Vec::new(),
            starts: Vec::new(),
            lengths: Vec::new(),
            tokens: 0,
        }
    }

    /// The plan whose rows hold the pieces at `indices`, and end at `offsets`.
    pub(super) fn gathered(
        max_length: NonZeroU32,
        pieces: &[Piece],
        indices: &[u32],
        offsets: Vec<u64>,
    ) -> Self {
        let mut plan = Self {
            members: Vec::with_capacity(indices.len()),
            starts: Vec::with_capacity(indices.len()),
            lengths: Vec::with_capacity(indices.len()),
            ..Self::new(max_length)
        };
        // Pieces lie far apart: they are read once for all columns, many at a time.
        let mut near = Vec::with_capacity(NEAR);
        for indices in indices.chunks(NEAR) {
            near.clear();
            near.extend(indices.iter().map(|&index| pieces[index as usize]));
            plan.members.extend(near.iter().map(|piece| piece.document));
            plan.starts.extend(near.iter().map(|piece| piece.start));
            plan.lengths.extend(near.iter().map(|piece| piece.length));
        }
        for row in offsets.windows(2) {
            plan.tokens += plan.checked(position(row[0])..position(row[1]));
        }
        plan.offsets = offsets;
        plan
    }

    /// Appends a row.
    ///
    /// # Panics
    ///
    /// If it is empty, or holds more than `max_length` tokens.
    pub fn push(&mut self, row: &[Piece]) {
        for piece in row {
            self.members.push(piece.document);
            self.starts.push(piece.start);
            self.lengths.push(piece.length);
        }
        self.tokens += self.checked(position(self.offsets[self.rows()])..self.lengths.len());
        self.offsets.push(self.lengths.len() as u64);
    }

    /// The tokens of a row that is as it must be.
    fn checked(&self, row: Range<usize>) -> u64 {
        assert!(!row.is_empty(), "a row holds at least one piece");
        let tokens: u64 = self.lengths[row].iter().copied().map(u64::from).sum();
        assert!(
            tokens <= u64::from(self.max_length.get()),
            "a row holds at most `max_length` tokens"
        );
        tokens
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are no rows.
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
        })
    }

    /// The lengths of the pieces of neighbouring rows, in their order.
    pub fn lengths_of(&self, rows: Range<usize>) -> &[u32] {
        &self.lengths[self.span(rows)]
    }

    /// The number of tokens in one row.
    pub fn tokens_of(&self, row: usize) -> usize {
        self.lengths_of(row..row + 1).iter().map(|&length| length as usize).sum()
    }

    fn span(&self, rows: Range<usize>) -> Range<usize> {
        position(self.offsets[rows.start])..position(self.offsets[rows.end])
    }

    /// Row `i` holds the pieces `offsets[i]..offsets[i + 1]`: one offset more than rows.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// The document of each piece, counted from [`Plan::first_document`].
    pub fn members(&self) -> &[u32] {
        &self.members
    }

    /// The first token of each piece in its document.
    pub fn starts(&self) -> &[u32] {
        &self.starts
    }

    /// The number of tokens of each piece.
    pub fn lengths(&self) -> &[u32] {
        &self.lengths
    }

    /// The number in the store of the document that the members call 0.
    pub fn first_document(&self) -> u64 {
        self.first_document
    }

    /// The tokens in all rows.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Tokens a row holds at most.
    pub fn max_length(&self) -> NonZeroU32 {
        self.max_length
    }

    /// Which share of the room in all rows is used, from 0 to 1; 0 without rows.
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
