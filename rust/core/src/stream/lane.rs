//! [`Lane`]: packs its own documents, one row after the other.
//!
//! The rows of a lane, and its state after each of them, depend on the inputs, the options, the seed and the
//! number of the lane. They do not depend on the time, on other lanes, or on the progress of threads.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

use super::made::Made;
use super::mix::Mix;
use super::options::OnExhausted;
use super::order::Address;
use super::place::{DocumentPlace, LaneState, PiecePlace, PoolState};
use crate::config::Options;
use crate::document::{Document, INPUTS};
use crate::error::{Error, Result};
use crate::ledger::Count;
use crate::pack::{OpenPacks, Piece, Plan};
use crate::pipeline::Books;
use crate::store::Store;

/// Pieces, for each row that may be open, after which an open row is closed, full or not: a long document
/// does not wait for a short one for ever.
const AGE: u64 = 64;

/// Runs of documents, and their bytes, that are kept before unused ones are freed.
const SEGMENTS: usize = 4;
const BYTES: u64 = 256 << 10;

/// Delivered rows that are kept before they are freed.
const ROWS: usize = 64;

/// Packs the documents of one lane.
pub(super) struct Lane {
    open: OpenPacks,
    /// The number of pieces after which an open row is closed.
    age: u64,
    /// Closed rows. The first of them were delivered.
    closed: Plan,
    delivered: usize,
    store: Store,
    /// The blocks of the documents in the store.
    held: VecDeque<Held>,
    pools: Vec<Pool>,
    /// Its number, and the number of lanes.
    number: u64,
    lanes: u64,
    rows: u64,
    ended: bool,
    /// The state to start from, until its documents are there.
    from: Option<LaneState>,
    pieces: Vec<Piece>,
    patience: (usize, u64),
    /// The state after the last delivered row.
    state: Arc<Vec<u8>>,
}

/// A block whose documents are in the store.
struct Held {
    pool: usize,
    address: Address,
    /// The number of its first document.
    first: u64,
    places: Vec<u64>,
}

/// The place of a lane in a pool.
#[derive(Default)]
struct Pool {
    next: (Address, u64),
    current: Option<Current>,
    ended: bool,
    /// Whether it was read for all epochs.
    passed: bool,
    /// The credit of the pool in this lane.
    credit: i64,
    /// Documents of the current epoch, if it was read from its beginning.
    documents: Option<u64>,
}

/// The block that is being packed.
struct Current {
    /// The numbers of its documents that remain to be packed.
    numbers: std::ops::Range<u64>,
    places: VecDeque<u64>,
    address: Address,
    end: Option<Error>,
}

/// The parts of the run that a lane needs for packing.
pub(super) struct Bench<'b> {
    pub(super) options: &'b Options,
    pub(super) mix: &'b Mix,
    /// The packed documents and tokens of each pool.
    pub(super) shares: &'b mut [Count],
    pub(super) books: &'b mut Books,
    /// The next block of a pool.
    pub(super) take: &'b mut dyn FnMut(usize) -> Result<Option<Made>>,
    /// Returns the line of a record that is identified by its offset.
    pub(super) line_of: &'b dyn Fn(&Document<'_>) -> Result<u64>,
}

impl Lane {
    pub(super) fn new(
        open: OpenPacks,
        options: &Options,
        pools: usize,
        (number, lanes): (usize, usize),
        from: LaneState,
    ) -> Self {
        let packs = &options.rows.packing;
        let closed = Plan::new(packs.row_limit()).aligned_to(packs.align_documents_to);
        let age = AGE.saturating_mul(open.most() as u64);
        let state = Arc::new(from.to_bytes());
        let pool = |at: usize| {
            let next = from.pools.get(at).map_or((Address::default(), 0), |pool| pool.next);
            let documents = (next == (Address::default(), 0)).then_some(0);
            let credit = from.pools.get(at).map_or(0, |pool| pool.credit);
            Pool { next, credit, documents, ..Pool::default() }
        };
        Self {
            open,
            age,
            closed,
            delivered: 0,
            store: Store::default(),
            held: VecDeque::new(),
            pools: (0..pools).map(pool).collect(),
            number: number as u64,
            lanes: lanes as u64,
            rows: from.rows,
            ended: from.ended,
            pieces: Vec::new(),
            patience: (SEGMENTS, BYTES),
            state,
            from: Some(from).filter(|from| !from.closed.is_empty() || !from.open.is_empty()),
        }
    }

    /// The blocks with the documents of the rows in a state, for each pool.
    pub(super) fn blocks_again(
        state: &LaneState,
        pools: usize,
    ) -> Vec<VecDeque<(Address, Vec<u64>)>> {
        let mut blocks: Vec<BTreeMap<Address, Vec<u64>>> = vec![BTreeMap::new(); pools];
        let rows = state.closed.iter().chain(state.open.iter().map(|(_, row)| row));
        for piece in rows.flatten() {
            let DocumentPlace { pool, address, place } = piece.document;
            if let Some(blocks) = blocks.get_mut(pool) {
                blocks.entry(address).or_default().push(place);
            }
        }
        let sorted = |(address, mut places): (Address, Vec<u64>)| {
            places.sort_unstable();
            places.dedup();
            (address, places)
        };
        blocks.into_iter().map(|blocks| blocks.into_iter().map(sorted).collect()).collect()
    }

    /// Whether no row follows.
    pub(super) fn is_ended(&self) -> bool {
        self.ended && self.delivered == self.closed.rows()
    }

    /// The state after the last delivered row.
    pub(super) fn state(&self) -> Arc<Vec<u8>> {
        Arc::clone(&self.state)
    }

    /// The next row; `None` after the last. Its pieces refer to documents of [`stock`](Self::stock).
    pub(super) fn next_row(&mut self, bench: &mut Bench<'_>) -> Result<Option<Vec<Piece>>> {
        if let Some(state) = self.from.take() {
            self.restore(&state, bench)?;
        }
        while self.delivered == self.closed.rows() {
            if self.ended {
                return Ok(None);
            }
            let Some(pool) = self.choose(bench)? else {
                self.finish(bench);
                continue;
            };
            self.pack_next(pool, bench)?;
        }
        let row = self.closed.row(self.delivered).collect();
        self.delivered += 1;
        self.rows += 1;
        Ok(Some(row))
    }

    /// The store of the documents, and the number of the document that pieces count from.
    pub(super) fn stock(&self) -> (&Store, u64) {
        (&self.store, self.closed.first_document())
    }

    /// Saves the state and frees unused documents, after the rows that were handed out are assembled.
    pub(super) fn settle(&mut self) {
        self.state = Arc::new(self.snapshot().to_bytes());
        let (segments, resident) = (self.store.segments(), self.store.resident());
        if segments > self.patience.0 || resident > self.patience.1 || self.delivered > ROWS {
            self.free();
            let (segments, resident) = (self.store.segments(), self.store.resident());
            self.patience = (SEGMENTS.max(2 * segments), BYTES.max(2 * resident));
        }
    }

    /// The pool of the next document; `None` if there is no document left.
    fn choose(&mut self, bench: &mut Bench<'_>) -> Result<Option<usize>> {
        loop {
            let weights = bench.mix.weights(self.rows * self.lanes + self.number);
            let open: Vec<usize> = (0..self.pools.len())
                .filter(|&at| !self.pools[at].ended && weights[at] > 0)
                .collect();
            let credits = open.iter().map(|&at| (at, self.pools[at].credit));
            let Some(pool) = Mix::choose(credits) else { return Ok(None) };
            if self.is_ready(pool, bench)? {
                let passed = open.iter().all(|&at| self.pools[at].passed);
                return Ok(Some(pool).filter(|_| !passed));
            }
            if self.pools[pool].documents == Some(0) && bench.mix.pools() > 1 {
                self.refuse_empty(pool, bench)?;
            }
            self.pools[pool].ended = true;
            if bench.mix.on_exhausted == OnExhausted::Stop {
                return Ok(None);
            }
        }
    }

    /// Fails for a pool with a weight but without documents for this lane, unless the others take its share.
    fn refuse_empty(&self, pool: usize, bench: &Bench<'_>) -> Result<()> {
        if bench.mix.on_exhausted == OnExhausted::Drop {
            return Ok(());
        }
        let reason = format!(
            "give source {pool} a share, but lane {} of {} has no document of it; take fewer `lanes`, more records, or \
             on_exhausted=\"drop\"",
            self.number, self.lanes
        );
        Err(Error::option("weights", reason))
    }

    /// Whether a document of a pool is ready to be packed. Takes blocks until one is.
    fn is_ready(&mut self, number: usize, bench: &mut Bench<'_>) -> Result<bool> {
        loop {
            let pool = &mut self.pools[number];
            if let Some(current) = &mut pool.current {
                if !current.numbers.is_empty() {
                    return Ok(true);
                }
                if let Some(end) = current.end.take() {
                    return Err(end);
                }
                pool.next = (Address { block: current.address.block + 1, ..current.address }, 0);
                pool.current = None;
            }
            let Some(made) = (bench.take)(number)? else { return Ok(false) };
            let pool = &mut self.pools[number];
            let repeats = bench.mix.pools() > 1 && bench.mix.on_exhausted == OnExhausted::Repeat;
            pool.passed |=
                repeats && bench.mix.epochs.is_some_and(|epochs| made.address.epoch >= epochs);
            if made.address.epoch > pool.next.0.epoch {
                // After an epoch without a document, all later epochs have none.
                if pool.documents == Some(0) {
                    return Ok(false);
                }
                pool.documents = Some(0);
            }
            if let Some(documents) = &mut pool.documents {
                *documents += made.documents.len() as u64;
            }
            bench.books.work += made.work;
            bench.books.ledger.merge(made.ledger);
            let (address, places, end) = (made.address, made.places, made.end);
            let numbers = self.store.push(made.documents, None);
            pool.next = (address, pool.next.1.max(places.first().copied().unwrap_or(0)));
            self.held.push_back(Held {
                pool: number,
                address,
                first: numbers.start,
                places: places.clone(),
            });
            pool.current = Some(Current { numbers, places: places.into(), address, end });
        }
    }

    /// Packs the next document of a pool.
    fn pack_next(&mut self, number: usize, bench: &mut Bench<'_>) -> Result<()> {
        let pool = &mut self.pools[number];
        let current = pool.current.as_mut().expect("a document is ready");
        let document = current.numbers.next().expect("a document is ready");
        let place = current.places.pop_front().expect("each document has a place");
        pool.next = (current.address, place + 1);
        let name = u32::try_from(document - self.closed.first_document());
        let name = name.expect("few documents wait for their rows");
        let found = self.store.document(document);
        if let Err(refused) = bench.books.pieces(found, name, bench.options, &mut self.pieces) {
            // The error names a line, so the line of the record is counted.
            let line = (bench.line_of)(&found)?;
            let again = found.at_line(line);
            let said = bench.books.pieces(again.document(0), name, bench.options, &mut self.pieces);
            return Err(said.err().unwrap_or(refused));
        }
        let tokens = found.column(INPUTS).len() as u64;
        bench.shares[number].add(tokens);
        if self.pools.len() > 1 {
            let cost = bench.mix.cost(tokens);
            let weights = bench.mix.weights(self.rows * self.lanes + self.number);
            let mut all = 0;
            for (pool, weight) in self.pools.iter_mut().zip(weights).filter(|(pool, _)| !pool.ended)
            {
                pool.credit += weight * cost;
                all += weight;
            }
            self.pools[number].credit -= all * cost;
        }
        for piece in self.pieces.drain(..) {
            self.open.push(piece, &mut self.closed);
        }
        if self.open.overtakes() {
            self.open.close_aged(self.age, &mut self.closed);
        }
        Ok(())
    }

    /// Closes all rows.
    fn finish(&mut self, bench: &mut Bench<'_>) {
        let tail = self.open.flush(&mut self.closed);
        bench.books.drop_tail(&tail, self.closed.first_document(), &self.store);
        self.ended = true;
    }

    /// The state after the last row that was handed out.
    fn snapshot(&self) -> LaneState {
        let first = self.closed.first_document();
        let waiting = self.delivered..self.closed.rows();
        let places = |pieces: &[Piece]| -> Vec<PiecePlace> {
            pieces.iter().map(|piece| self.place(piece, first)).collect()
        };
        let closed = waiting.map(|row| places(&self.closed.row(row).collect::<Vec<_>>()));
        let open = self.open.rows().into_iter().map(|(age, pieces)| (age, places(pieces)));
        let pool = |pool: &Pool| PoolState { next: pool.next, credit: pool.credit };
        let (closed, open): (Vec<_>, Vec<_>) = (closed.collect(), open.collect());
        LaneState {
            rows: self.rows,
            ended: self.ended && closed.is_empty(),
            pools: self.pools.iter().map(pool).collect(),
            closed,
            open,
        }
    }

    /// The place of a piece whose document is counted from `first`.
    fn place(&self, piece: &Piece, first: u64) -> PiecePlace {
        let number = first + u64::from(piece.document);
        let after = self.held.partition_point(|held| held.first <= number);
        let held = &self.held[after.checked_sub(1).expect("the block of a document in a row")];
        let at = usize::try_from(number - held.first).expect("a place in a block");
        let document =
            DocumentPlace { pool: held.pool, address: held.address, place: held.places[at] };
        let length = self.store.document(number).column(INPUTS).len();
        let is_whole = piece.start == 0 && piece.length as usize == length;
        PiecePlace { document, part: (!is_whole).then_some((piece.start, piece.length)) }
    }

    /// Frees the documents that no row uses.
    fn free(&mut self) {
        let first = self.closed.first_document();
        let end = self.store.end();
        let waiting = self.closed.pieces(self.delivered..self.closed.rows());
        let waiting = waiting.chain(self.open.pieces().copied());
        let needed: HashSet<u64> = waiting.map(|piece| first + u64::from(piece.document)).collect();
        let next: Vec<_> =
            self.pools.iter().flat_map(|it| &it.current).map(|it| it.numbers.clone()).collect();
        let is_needed =
            |number: u64| needed.contains(&number) || next.iter().any(|it| it.contains(&number));
        self.store.retain(is_needed);
        self.held.retain(|held| (held.first..).take(held.places.len()).any(is_needed));
        let unpacked = next.iter().filter(|it| !it.is_empty()).map(|it| it.start).min();
        let oldest = needed.into_iter().min().unwrap_or(end).min(unpacked.unwrap_or(end));
        let step = u32::try_from(oldest - first).expect("few documents wait for their rows");
        self.closed = self.closed.split_off(self.delivered, oldest);
        self.delivered = 0;
        self.open.rebase(step);
    }

    /// Makes the rows of a state again.
    fn restore(&mut self, state: &LaneState, bench: &mut Bench<'_>) -> Result<()> {
        let mut numbers: BTreeMap<DocumentPlace, u64> = BTreeMap::new();
        for (pool, blocks) in Self::blocks_again(state, self.pools.len()).into_iter().enumerate() {
            for (address, places) in blocks {
                let made = (bench.take)(pool)?;
                let made = made.filter(|made| made.address == address && made.places == places);
                let Some(made) = made else { return Err(missing()) };
                let documents = self.store.push(made.documents, None);
                let first = documents.start;
                numbers.extend(
                    made.places
                        .iter()
                        .map(|&place| DocumentPlace { pool, address, place })
                        .zip(documents),
                );
                self.held.push_back(Held { pool, address, first, places: made.places });
            }
        }
        let piece = |piece: &PiecePlace| -> Result<Piece> {
            let number = *numbers.get(&piece.document).ok_or_else(missing)?;
            let length = self.store.document(number).column(INPUTS).len();
            let length = u32::try_from(length).map_err(|_| missing())?;
            let (start, tokens) = piece.part.unwrap_or((0, length));
            if tokens == 0 || start.checked_add(tokens).is_none_or(|end| end > length) {
                return Err(missing());
            }
            let document = u32::try_from(number).map_err(|_| missing())?;
            Ok(Piece { document, start, length: tokens })
        };
        let row = |pieces: &[PiecePlace]| -> Result<Vec<Piece>> {
            let row = pieces.iter().map(piece).collect::<Result<Vec<_>>>()?;
            let rooms = row.iter().map(|it| u64::from(bench.options.rows.packing.room(it.length)));
            let room: u64 = rooms.sum();
            let most = u64::from(bench.options.rows.packing.row_limit().get());
            if row.is_empty() || room > most { Err(missing()) } else { Ok(row) }
        };
        for pieces in &state.closed {
            self.closed.push(&row(pieces)?);
        }
        let open = state.open.iter().map(|(age, pieces)| Ok((*age, row(pieces)?)));
        let open = open.collect::<Result<Vec<_>>>()?;
        if open.len() > self.open.most() {
            return Err(missing());
        }
        self.open.reopen(open);
        Ok(())
    }
}

/// The error of a state whose documents are missing from the input.
fn missing() -> Error {
    Error::option(
        "state",
        "names documents that the inputs do not hold; it is of other files, or a function that was given changes",
    )
}
