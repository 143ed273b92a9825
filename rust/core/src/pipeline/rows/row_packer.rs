//! [`RowPacker`]: packs documents into rows as they come, in a run and in the lanes of a stream.

use crate::config::PackOptions;
use crate::document::store::DocumentStore;
use crate::pack::{OpenPacks, Piece, Plan};

/// Pieces, for each row that may be open, after which an open row is closed, full or not: a long document
/// does not wait for a short one for ever.
const AGE: u64 = 64;

/// The open and closed rows of documents that are freed once no row needs them: for one packer, or for one of each pool
/// of a lane.
pub(crate) struct RowPacker {
    packers: Vec<PackingQueue>,
    /// The number of pieces after which an open row is closed.
    age: u64,
}

/// The rows that are packed together.
struct PackingQueue {
    open: OpenPacks,
    /// Closed rows. The first of them were delivered.
    closed: Plan,
    delivered: usize,
}

/// A row and its packer.
pub(crate) type ClosedRow = (usize, Vec<Piece>);

impl RowPacker {
    /// No rows, for so many packers.
    pub(crate) fn new(open: &OpenPacks, packs: &PackOptions, packers: usize) -> Self {
        let closed = Plan::new(packs.row_limit()).aligned_to(packs.align_documents_to);
        let packer = || PackingQueue { open: open.clone(), closed: closed.clone(), delivered: 0 };
        let age = AGE.saturating_mul(open.most() as u64);
        Self { packers: (0..packers).map(|_| packer()).collect(), age }
    }

    /// The number of the document that pieces count from.
    pub(crate) fn first_document(&self) -> u64 {
        self.packers[0].closed.first_document()
    }

    /// The number by which pieces name a document of the store.
    pub(crate) fn local_number(&self, number: u64) -> u32 {
        let name = u32::try_from(number - self.first_document());
        name.expect("few documents wait for their rows")
    }

    /// The closed rows of a packer, those that were delivered included.
    pub(crate) fn rows(&self, packer: usize) -> &Plan {
        &self.packers[packer].closed
    }

    /// The number of packers.
    pub(crate) fn packers(&self) -> usize {
        self.packers.len()
    }

    /// True if a packer has a closed row that was not delivered.
    pub(crate) fn waits(&self, packer: usize) -> bool {
        let PackingQueue { closed, delivered, .. } = &self.packers[packer];
        *delivered < closed.rows()
    }

    /// True if any packer has a closed row that was not delivered.
    pub(crate) fn any_waits(&self) -> bool {
        (0..self.packers.len()).any(|packer| self.waits(packer))
    }

    /// Packs the pieces of a document.
    pub(crate) fn push(&mut self, packer: usize, pieces: &mut Vec<Piece>) {
        let PackingQueue { open, closed, .. } = &mut self.packers[packer];
        for piece in pieces.drain(..) {
            open.push(piece, closed);
        }
        if open.overtakes() {
            open.close_aged(self.age, closed);
        }
    }

    /// Delivers the first row that waits.
    ///
    /// # Panics
    ///
    /// If no row of the packer waits.
    pub(crate) fn take(&mut self, packer: usize) -> Vec<Piece> {
        let PackingQueue { closed, delivered, .. } = &mut self.packers[packer];
        let row = closed.row(*delivered).collect();
        *delivered += 1;
        row
    }

    /// Delivers the first `rows` closed rows of a packer.
    pub(crate) fn deliver(&mut self, packer: usize, rows: usize) {
        self.packers[packer].delivered = rows;
    }

    /// Closes all rows of a packer. Returns the pieces of the tail if it is dropped. Documents of a pool are numbered in their
    /// order; `pool_of` tells the pool, so that rows do not depend on how pools were numbered together.
    pub(crate) fn finish(
        &mut self,
        packer: usize,
        pool_of: impl Fn(&Piece) -> usize,
    ) -> Vec<Piece> {
        let PackingQueue { open, closed, .. } = &mut self.packers[packer];
        open.flush_by(pool_of, closed)
    }

    /// The pieces of all rows that were not delivered.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Piece> {
        self.packers.iter().flat_map(|PackingQueue { open, closed, delivered }| {
            closed.pieces(*delivered..closed.rows()).chain(open.pieces().copied())
        })
    }

    /// Forgets the delivered rows, and frees the documents of `store` that are neither in another row nor `waiting` to be
    /// packed.
    pub(crate) fn free(
        &mut self,
        store: &mut DocumentStore,
        waiting: impl Iterator<Item = u64>,
    ) -> NeededDocuments {
        let first = self.first_document();
        let count = usize::try_from(store.end() - first).expect("documents in memory");
        let mut needed = NeededDocuments { first, flags: vec![false; count] };
        for number in self.pieces().map(|piece| first + u64::from(piece.document)).chain(waiting) {
            if let Some(at) = needed.index(number) {
                needed.flags[at] = true;
            }
        }
        store.retain(|number| needed.has(number));
        let unused = needed.flags.iter().take_while(|&&needed| !needed).count();
        let step = u32::try_from(unused).expect("few documents wait for their rows");
        for PackingQueue { open, closed, delivered } in &mut self.packers {
            *closed = closed.split_off(*delivered, first + unused as u64);
            *delivered = 0;
            open.rebase(step);
        }
        needed
    }

    /// The closed rows that were not delivered.
    pub(crate) fn closed(&self) -> impl Iterator<Item = Vec<Piece>> {
        self.packers.iter().flat_map(|PackingQueue { closed, delivered, .. }| {
            (*delivered..closed.rows()).map(|row| closed.row(row).collect())
        })
    }

    /// The open rows with their ages. The last row of each packer is the one that was added to last.
    pub(crate) fn open(&self) -> impl Iterator<Item = (u64, &[Piece])> {
        self.packers.iter().flat_map(|packer| packer.open.rows())
    }

    /// Restores the rows that [`closed`](Self::closed) and [`open`](Self::open) returned. Returns `false` if
    /// more are open than may be.
    pub(crate) fn reopen(&mut self, closed: Vec<ClosedRow>, open: Vec<(u64, ClosedRow)>) -> bool {
        for (packer, row) in closed {
            self.packers[packer].closed.push(&row);
        }
        let mut of: Vec<Vec<(u64, Vec<Piece>)>> = vec![Vec::new(); self.packers.len()];
        for (age, (packer, row)) in open {
            of[packer].push((age, row));
        }
        let fits = of.iter().zip(&self.packers).all(|(rows, it)| rows.len() <= it.open.most());
        if fits {
            for (rows, packer) in of.into_iter().zip(&mut self.packers) {
                packer.open.reopen(rows);
            }
        }
        fits
    }
}

/// The documents of a store that rows need, or that are still to be packed.
pub(crate) struct NeededDocuments {
    /// The number of the first document.
    first: u64,
    flags: Vec<bool>,
}

impl NeededDocuments {
    fn index(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }

    /// True if a document is needed.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.index(number).is_some_and(|at| self.flags[at])
    }
}
