//! [`Lane`]: the rows of one lane, and its state after each of them.

use std::collections::VecDeque;
use std::sync::Arc;

use super::caller_blocks::{Round, floor_of};
use super::empty_passes::{EmptyPasses, MOST_EMPTY_PASSES};
use super::packed_block::PackedBlock;
use super::picture_hashes;
use super::record_order::BlockAddress;
use super::source_mix::PoolChoice;
use super::stored_block::{StoredBlock, held, lengths_of};
use crate::config::Options;
use crate::document::Document;
use crate::document::store::DocumentStore;
use crate::error::{Error, Origin, Result};
use crate::objective::Objective;
use crate::pack::{OpenPacks, Piece};
use crate::pipeline::{DocumentCutter, PackedCounts, RowPacker};
use crate::stream::state::encode;
use crate::stream::state::lane_state::{LaneState, PoolState};
use crate::stream::stream_options::OnExhausted;
use crate::util::wording::{message, set};

/// Packs the documents of one lane.
pub(in crate::stream) struct Lane {
    /// The rows: of one packer, or of one for each pool if each row holds one source.
    pub(super) packed: RowPacker,
    pub(super) store: DocumentStore,
    /// The blocks of the documents in the store.
    pub(super) held: VecDeque<StoredBlock>,
    pub(super) pools: Vec<PoolPlace>,
    /// Its number, and the number of lanes.
    pub(super) number: u64,
    pub(super) lanes: u64,
    pub(super) rows: u64,
    /// The number of times that all epochs were read to their end.
    pub(super) round: u64,
    pub(super) ended: bool,
    /// True if a row of this round was delivered.
    pub(super) delivered_in_round: bool,
    /// The further rounds that may give no row.
    pub(super) empty_passes_left: u64,
    /// The state to start from, until its documents are there.
    pub(super) from: Option<LaneState>,
    pub(super) pieces: Vec<Piece>,
    /// The counts since the last delivered row.
    pub(super) packed_counts: PackedCounts,
    /// The state after the last delivered row, as text.
    pub(super) state: Arc<str>,
    /// The first round of each pool that the state needs, if a pool has rounds.
    pub(super) floors: Option<Vec<Round>>,
    /// True if its next row is padding.
    pub(super) pads: bool,
}

/// The place of a lane in a pool.
#[derive(Default)]
pub(super) struct PoolPlace {
    pub(super) next: (BlockAddress, u64),
    pub(super) current: Option<CurrentBlock>,
    /// True if it gives no more documents in this round.
    pub(super) ended: bool,
    /// True if it gives no more documents in any round.
    pub(super) exhausted: bool,
    /// The credit of the pool in this lane.
    pub(super) credit: i64,
    /// The block whose records are counted already, though it is read again, and their hash, if it is known.
    pub(super) counted: Option<(BlockAddress, Option<u32>)>,
    /// The hashes of the pictures of its documents that are not packed yet, if they are known.
    pub(super) shown: Option<Vec<u32>>,
    /// The hash of the extents of the lane in the portion of the last block.
    pub(super) dealt: Option<u32>,
    /// The passes in which it packs no document.
    pub(super) passes: EmptyPasses,
}

/// The next step of a lane.
enum LaneStep {
    /// A row of this packer is closed.
    Row(usize),
    /// A document of this pool is ready.
    Document(usize),
    /// A whole pass has packed no document.
    Padding,
    /// All rows can be closed.
    End,
}

/// The next row of a lane.
enum NextRow {
    /// A row of the packer with this number.
    Packed(usize),
    Padding,
}

/// The next document of a pool, or the reason that there is none.
enum NextDocument {
    Document,
    /// No document was packed in a whole pass, and others may follow.
    Padding,
    /// The epochs of this round are over, and the next had no document so far.
    Passed,
    Nothing,
}

/// The block that is being packed.
pub(super) struct CurrentBlock {
    /// The numbers of its documents that remain to be packed.
    pub(super) numbers: std::ops::Range<u64>,
    pub(super) places: VecDeque<u64>,
    pub(super) address: BlockAddress,
    /// The hash of its records.
    pub(super) hash: u32,
    pub(super) end: Option<Error>,
}

/// The options, objective, counts and callbacks by which a lane packs.
pub(in crate::stream) struct LaneContext<'b> {
    pub(in crate::stream) options: &'b Options,
    pub(in crate::stream) objective: &'b dyn Objective,
    pub(in crate::stream) pool_choice: &'b PoolChoice,
    /// The counts of the lane.
    pub(in crate::stream) packed_counts: &'b mut PackedCounts,
    /// The next block of a pool.
    pub(in crate::stream) take: &'b mut dyn FnMut(usize) -> Result<Option<PackedBlock>>,
    /// Returns the line of a record that is identified by its offset.
    pub(in crate::stream) line_of: &'b dyn Fn(&Document<'_>) -> Result<u64>,
}

impl<'b> LaneContext<'b> {
    /// The place of a document, with the number of its line.
    pub(super) fn origin_of(&self, document: &Document<'_>) -> Result<Origin> {
        Ok(Origin { line: (self.line_of)(document)?, ..document.origin() })
    }

    /// Cuts documents as the run does.
    pub(super) fn cutter(&self) -> DocumentCutter<'b> {
        DocumentCutter { options: self.options, objective: self.objective, copy: 0 }
    }
}

impl Lane {
    pub(in crate::stream) fn new(
        open: &OpenPacks,
        options: &Options,
        pool_choice: &PoolChoice,
        number: usize,
        lanes: usize,
        from: LaneState,
        has_rounds: bool,
    ) -> Self {
        let pools = pool_choice.pools();
        let floors = has_rounds.then(|| (0..pools).map(|pool| floor_of(&from, pool)).collect());
        let packers = if pool_choice.chooses_rows() { pools } else { 1 };
        let state = Arc::from(encode(&from.to_bytes()));
        let known_pictures = from.pictures.as_ref();
        let pool = |at: usize| {
            let from = from.pools.get(at).copied().unwrap_or_default();
            let PoolState { next, credit, exhausted, hashes, ended, .. } = from;
            let counted = from.counted.then_some((next.0, hashes.next));
            let (current, dealt, passes) = (None, hashes.dealt, EmptyPasses::of(&from));
            let shown = known_pictures.and_then(|known| known.next.get(at).cloned());
            PoolPlace { next, current, ended, exhausted, credit, counted, shown, dealt, passes }
        };
        Self {
            packed: RowPacker::new(open, &options.rows.packing, packers),
            store: DocumentStore::default(),
            held: VecDeque::new(),
            pools: (0..pools).map(pool).collect(),
            number: number as u64,
            lanes: lanes as u64,
            rows: from.rows,
            round: from.round,
            ended: from.ended,
            delivered_in_round: from.delivered_in_round,
            empty_passes_left: from.empty_passes_left,
            pieces: Vec::new(),
            packed_counts: PackedCounts::default(),
            state,
            floors,
            pads: false,
            from: Some(from).filter(|from| !from.closed.is_empty() || !from.open.is_empty()),
        }
    }

    /// True if no row follows, except those of epochs that are read again.
    pub(in crate::stream) fn is_ended(&self) -> bool {
        self.round > 0 || self.ended && self.from.is_none() && !self.packed.any_waits()
    }

    /// The state after the last delivered row.
    pub(in crate::stream) fn state(&self) -> Arc<str> {
        Arc::clone(&self.state)
    }

    /// The next row, without pieces where it is padding; `None` after the last. Its pieces refer to documents of
    /// [`stock`](Self::stock).
    pub(in crate::stream) fn next_row(
        &mut self,
        lane_context: &mut LaneContext<'_>,
    ) -> Result<Option<Vec<Piece>>> {
        loop {
            match self.find_row(lane_context)? {
                Some(NextRow::Packed(packer)) => {
                    let row = self.packed.take(packer);
                    self.rows += 1;
                    (self.delivered_in_round, self.empty_passes_left) = (true, MOST_EMPTY_PASSES);
                    if lane_context.pool_choice.chooses_rows() {
                        self.charge(packer, 1, lane_context);
                    }
                    return Ok(Some(row));
                }
                Some(NextRow::Padding) => {
                    (self.pads, self.rows) = (false, self.rows + 1);
                    return Ok(Some(Vec::new()));
                }
                None => {}
            }
            let is_given_up = !self.delivered_in_round && self.empty_passes_left == 0;
            if !lane_context.pool_choice.has_rounds() || is_given_up || !self.can_read(lane_context)
            {
                return Ok(None);
            }
            self.pads = !self.delivered_in_round;
            self.empty_passes_left -= u64::from(self.pads);
            (self.round, self.ended, self.delivered_in_round) = (self.round + 1, false, false);
            for pool in &mut self.pools {
                pool.ended = pool.exhausted;
            }
        }
    }

    /// True if a pool with a weight may give documents in another round.
    fn can_read(&self, lane_context: &LaneContext<'_>) -> bool {
        let weights = lane_context.pool_choice.weights(self.rows * self.lanes + self.number);
        self.pools.iter().zip(weights).any(|(pool, weight)| *weight > 0 && !pool.exhausted)
    }

    /// True if a row was ever delivered.
    pub(in crate::stream) fn has_delivered(&self) -> bool {
        self.rows > 0
    }

    /// True if it was read to its end, and no row was delivered.
    pub(in crate::stream) fn has_ended_without_rows(&self) -> bool {
        self.rows == 0 && self.is_ended()
    }

    /// True if the last pass had a document.
    pub(in crate::stream) fn has_documents(&self) -> bool {
        self.pools.iter().any(|pool| pool.passes.found)
    }

    /// True if a pool is not read any more.
    pub(in crate::stream) fn is_exhausted(&self, pool: usize) -> bool {
        self.pools[pool].exhausted
    }

    /// True if the last row is of epochs that are read again.
    pub(in crate::stream) fn repeats(&self) -> bool {
        self.round > 0
    }

    /// True if a row follows that is not of an epoch read again.
    pub(in crate::stream) fn has_row(
        &mut self,
        lane_context: &mut LaneContext<'_>,
    ) -> Result<bool> {
        Ok(!self.is_ended() && self.find_row(lane_context)?.is_some())
    }

    /// The next row of this round: one that is closed, or padding; `None` after the last.
    fn find_row(&mut self, lane_context: &mut LaneContext<'_>) -> Result<Option<NextRow>> {
        if let Some(state) = self.from.take() {
            self.restore(&state, lane_context)?;
        }
        while !self.pads {
            if self.ended {
                let waiting = (0..self.packed.packers()).filter(|&at| self.packed.waits(at));
                let packer = PoolChoice::choose(waiting.map(|at| (at, self.pools[at].credit)));
                return Ok(packer.map(NextRow::Packed));
            }
            match self.choose(lane_context)? {
                LaneStep::Row(packer) => return Ok(Some(NextRow::Packed(packer))),
                LaneStep::Document(pool) => self.pack_next(pool, lane_context)?,
                LaneStep::Padding => self.pads = true,
                LaneStep::End => {
                    (0..self.packed.packers()).for_each(|packer| self.finish(packer, lane_context));
                    self.ended = true;
                }
            }
        }
        Ok(Some(NextRow::Padding))
    }

    /// The counts since the last delivered row, to be filled or taken.
    pub(in crate::stream) fn packed_counts(&mut self) -> &mut PackedCounts {
        &mut self.packed_counts
    }

    /// The pool of a piece of a row that was handed out last.
    pub(in crate::stream) fn pool_of(&self, piece: &Piece) -> usize {
        held(&self.held, self.packed.first_document() + u64::from(piece.document)).pool
    }

    /// The store of the documents, and the number of the document that pieces count from.
    pub(in crate::stream) fn stock(&self) -> (&DocumentStore, u64) {
        (&self.store, self.packed.first_document())
    }

    /// Saves the state after the rows that were handed out. Returns the state that was saved before.
    pub(in crate::stream) fn save(&mut self) -> Arc<str> {
        if self.floors.is_some() {
            self.floors = Some(self.find_floors());
        }
        let after = Arc::from(encode(&self.snapshot()));
        std::mem::replace(&mut self.state, after)
    }

    /// The first round of each pool that the state needs, if that is watched.
    pub(in crate::stream) fn floors(&self) -> Option<&[Round]> {
        self.floors.as_deref()
    }

    /// Frees unused documents if there are many, after the rows that were handed out are assembled.
    pub(in crate::stream) fn forget(&mut self) {
        if !self.store.is_crowded(usize::try_from(self.lanes).expect("few lanes")) {
            return;
        }
        let current = self.pools.iter().flat_map(|pool| &pool.current);
        let waiting = current.flat_map(|current| current.numbers.clone());
        let needed = self.packed.free(&mut self.store, waiting);
        self.held.retain(|held| (held.first..held.end()).any(|number| needed.has(number)));
    }

    /// The next step: a row that is closed, or the pool of the next document.
    fn choose(&mut self, lane_context: &mut LaneContext<'_>) -> Result<LaneStep> {
        let chooses_rows = lane_context.pool_choice.chooses_rows();
        if !chooses_rows && self.packed.waits(0) {
            return Ok(LaneStep::Row(0));
        }
        if self.pools.len() == 1 && !self.pools[0].ended {
            match self.supply(0, lane_context)? {
                NextDocument::Document => {
                    let past =
                        lane_context.pool_choice.is_past(self.pools[0].next.0.epoch, self.round);
                    return Ok(if past { LaneStep::End } else { LaneStep::Document(0) });
                }
                NextDocument::Padding => return Ok(LaneStep::Padding),
                NextDocument::Passed => return Ok(LaneStep::End),
                NextDocument::Nothing => {}
            }
        }
        loop {
            let weights = lane_context.pool_choice.weights(self.rows * self.lanes + self.number);
            let weighed: Vec<usize> = (0..self.pools.len()).filter(|&at| weights[at] > 0).collect();
            let has_rows = |at: usize| chooses_rows && self.packed.waits(at);
            let open = weighed.iter().filter(|&&at| !self.pools[at].ended || has_rows(at));
            let Some(pool) = PoolChoice::choose(open.map(|&at| (at, self.pools[at].credit))) else {
                return Ok(LaneStep::End);
            };
            if has_rows(pool) {
                return Ok(LaneStep::Row(pool));
            }
            let caller_source = self.supply(pool, lane_context)?;
            match caller_source {
                NextDocument::Document | NextDocument::Passed => {
                    let has_passed = |at: usize| {
                        lane_context.pool_choice.is_past(self.pools[at].next.0.epoch, self.round)
                    };
                    let mut reading = weighed.iter().filter(|&&at| !self.pools[at].ended);
                    if reading.all(|&at| has_passed(at)) {
                        return Ok(LaneStep::End);
                    }
                    let is_read_on = lane_context.pool_choice.on_exhausted == OnExhausted::Repeat;
                    match caller_source {
                        NextDocument::Passed if is_read_on => continue,
                        NextDocument::Document if is_read_on || !has_passed(pool) => {
                            return Ok(LaneStep::Document(pool));
                        }
                        _ => {}
                    }
                }
                NextDocument::Padding => return Ok(LaneStep::Padding),
                NextDocument::Nothing => {
                    if self.pools[pool].passes.left == 0 && lane_context.pool_choice.pools() > 1 {
                        self.refuse_empty(pool, lane_context)?;
                    }
                    self.pools[pool].exhausted = true;
                }
            }
            self.pools[pool].ended = true;
            if lane_context.pool_choice.on_exhausted == OnExhausted::Stop {
                return Ok(LaneStep::End);
            }
            if chooses_rows {
                self.finish(pool, lane_context);
            }
        }
    }

    /// Fails for a pool with a weight but without documents for this lane, unless the others take its share.
    fn refuse_empty(&self, pool: usize, lane_context: &LaneContext<'_>) -> Result<()> {
        if lane_context.pool_choice.on_exhausted == OnExhausted::Drop {
            return Ok(());
        }
        let place = &self.pools[pool];
        let (has, more) = match (place.passes.found, place.passes.left_out > 0) {
            (true, false) => ("dropped every document of it", "a larger `max_length`".to_owned()),
            (true, true) => (
                "kept no document of it",
                "let `filter` and `select` keep more, a larger `max_length`".to_owned(),
            ),
            (false, true) => {
                ("was left no document of it", "let `filter` and `select` keep more".to_owned())
            }
            (false, false) => {
                ("has no document of it", lane_context.pool_choice.to_divide(pool, self.lanes))
            }
        };
        let (shown, lanes) = (lane_context.pool_choice.shown(pool), self.lanes);
        let fault =
            format!("source {shown} has a share, but lane {} of {lanes} {has}; ", self.number);
        let drop = set("weights.on_exhausted", "drop");
        let reason = match lane_context.pool_choice.few_lanes(pool, lanes) {
            Some(few) => {
                let few = set("ranks.lanes", few);
                message![fault, "take fewer lanes, such as ", few, format!(", {more}, or "), drop]
            }
            None => message![fault, format!("{more}, or "), drop],
        };
        Err(Error::option("weights", reason))
    }

    /// The next document of a pool. Takes blocks until a document is ready to be packed, or a whole pass has packed none.
    fn supply(
        &mut self,
        number: usize,
        lane_context: &mut LaneContext<'_>,
    ) -> Result<NextDocument> {
        loop {
            let pool = &mut self.pools[number];
            if let Some(current) = &mut pool.current {
                if !current.numbers.is_empty() {
                    return Ok(NextDocument::Document);
                }
                if let Some(end) = current.end.take() {
                    return Err(end);
                }
                pool.next = (current.address.next_block(), 0);
                pool.current = None;
            }
            if self.pools[number].exhausted {
                return Ok(NextDocument::Nothing);
            }
            if self.pools[number].passes.has_too_many_empty_documents(self.lanes) {
                let pool = &mut self.pools[number];
                if lane_context.pool_choice.pools() == 1 {
                    let ledger = &lane_context.packed_counts.ledger;
                    let documents = pool.passes.read_documents;
                    return Err(ledger.nothing_of_source(documents, self.number, self.lanes));
                }
                (pool.passes.left, pool.exhausted) = (0, true);
                return Ok(NextDocument::Nothing);
            }
            let Some(block) = (lane_context.take)(number)? else {
                return Ok(NextDocument::Nothing);
            };
            let pool = &mut self.pools[number];
            pool.passes.add(&block);
            let is_empty = pool.passes.is_whole_pass_before(&block.address)
                && lane_context.pool_choice.may_end(block.address.epoch, self.round);
            if is_empty && !pool.passes.begin(block.address) {
                pool.exhausted = true;
                return Ok(NextDocument::Nothing);
            }
            pool.passes.found |= !block.documents.is_empty();
            lane_context.packed_counts.work += block.work;
            let shown = pool.shown.take();
            if pool.counted.take().is_none_or(|(address, _)| address != block.address) {
                lane_context.packed_counts.ledger.merge(block.ledger);
            } else if let Some(mut known) = shown {
                if block.end.is_some() {
                    // The error names what is behind these documents.
                    known.truncate(block.documents.iter().flat_map(|it| it.pictures()).count());
                }
                let lost = block.lost_picture.as_ref();
                picture_hashes::compare(block.documents.iter(), &known, lost, |it| {
                    lane_context.origin_of(it)
                })?;
            }
            let PackedBlock { address, hash, places, end, .. } = block;
            pool.dealt = block.dealt;
            let (lengths, shown) =
                (lengths_of(&block.documents), picture_hashes::hashes_of(&block.documents));
            let numbers = self.store.push(block.documents, None);
            let from = if pool.next.0 == address { pool.next.1 } else { 0 };
            pool.next = (address, from.max(places.first().copied().unwrap_or(0)));
            self.held.push_back(StoredBlock {
                pool: number,
                address,
                hash,
                first: numbers.start,
                places: places.clone(),
                lengths,
                pictures: shown,
            });
            // An error of its block is raised before anything else of it.
            let is_without_documents = numbers.is_empty() && end.is_none();
            pool.current =
                Some(CurrentBlock { numbers, places: places.into(), address, hash, end });
            if is_empty && lane_context.pool_choice.is_endless() {
                return Ok(NextDocument::Padding);
            }
            if is_without_documents && lane_context.pool_choice.is_past(address.epoch, self.round) {
                return Ok(NextDocument::Passed);
            }
        }
    }

    /// Packs the next document of a pool.
    fn pack_next(&mut self, number: usize, lane_context: &mut LaneContext<'_>) -> Result<()> {
        let pool = &mut self.pools[number];
        let current = pool.current.as_mut().expect("a document is ready");
        let document = current.numbers.next().expect("a document is ready");
        let place = current.places.pop_front().expect("each document has a place");
        pool.next = (current.address, place + 1);
        let name = self.packed.local_number(document);
        let found = self.store.document(document);
        let cutter = lane_context.cutter();
        if let Err(refused) =
            lane_context.packed_counts.pieces(found, name, cutter, &mut self.pieces)
        {
            // The error names a line, so the line of the record is counted.
            let line = (lane_context.line_of)(&found)?;
            let again = found.at_line(line);
            let repeated = lane_context.packed_counts.pieces(
                again.document(0),
                name,
                cutter,
                &mut self.pieces,
            );
            return Err(repeated.err().unwrap_or(refused));
        }
        lane_context.packed_counts.defer(&self.pieces);
        if !self.pieces.is_empty() {
            let pool = &mut self.pools[number];
            pool.passes.note_packed(pool.next.0.next_block());
        }
        let chooses_rows = lane_context.pool_choice.chooses_rows();
        // A document without a kept piece is in no row, so it costs nothing: its pool gives the next one. A pool without
        // kept documents is given up after a pass.
        if self.pools.len() > 1 && !chooses_rows && !self.pieces.is_empty() {
            let kept = self.pieces.iter().map(|piece| u64::from(piece.length)).sum();
            self.charge(number, lane_context.pool_choice.cost(kept), lane_context);
        }
        self.packed.push(if chooses_rows { number } else { 0 }, &mut self.pieces);
        Ok(())
    }

    /// Charges a pool for a document, and credits all pools by their weights.
    fn charge(&mut self, number: usize, cost: i64, lane_context: &LaneContext<'_>) {
        let weights = lane_context.pool_choice.weights(self.rows * self.lanes + self.number);
        let mut all = 0;
        for (pool, weight) in self.pools.iter_mut().zip(weights).filter(|(pool, _)| !pool.ended) {
            pool.credit += weight * cost;
            all += weight;
        }
        self.pools[number].credit -= all * cost;
    }

    /// Closes all rows of a packer.
    fn finish(&mut self, packer: usize, lane_context: &mut LaneContext<'_>) {
        let first = self.packed.first_document();
        let blocks = &self.held;
        let pool_of = |piece: &Piece| held(blocks, first + u64::from(piece.document)).pool;
        let tail = self.packed.finish(packer, pool_of);
        lane_context.packed_counts.begin(&tail);
        lane_context.packed_counts.drop_tail(&tail, self.packed.first_document(), &self.store);
    }
}
