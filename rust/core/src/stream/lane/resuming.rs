//! The state of a [`Lane`] after a row, and the rows that it makes again from it.

use std::collections::{BTreeMap, VecDeque};

use super::empty_passes::EmptyPasses;
use super::lane_rows::{Lane, LaneContext, PoolPlace};
use super::picture_hashes;
use super::stored_block::{StoredBlock, held, lengths_of};
use crate::document::INPUTS;
use crate::error::{Error, Result};
use crate::pack::Piece;
use crate::pipeline::ClosedRow;
use crate::stream::lane::caller_blocks::{LAST, Round, round_of};
use crate::stream::lane::lane_blocks::{OpenBlock, hash_of_blocks};
use crate::stream::lane::record_order::BlockAddress;
use crate::stream::state::lane_state::{
    DocumentPlace, KnownPictures, LaneSnapshot, LaneState, PiecePlace, PoolState, ReadHashes,
    RowPiece,
};

impl Lane {
    /// The blocks with the documents of the rows in a state, for each pool.
    pub(in crate::stream) fn blocks_again(
        state: &LaneState,
        pools: usize,
    ) -> Vec<VecDeque<OpenBlock>> {
        let mut blocks: Vec<BTreeMap<BlockAddress, Vec<u64>>> = vec![BTreeMap::new(); pools];
        let rows = state.closed.iter().chain(state.open.iter().map(|(_, row)| row));
        for piece in rows.flatten() {
            let DocumentPlace { pool, address, place } = piece.document;
            if let Some(blocks) = blocks.get_mut(pool) {
                blocks.entry(address).or_default().push(place);
            }
        }
        let sorted = |(address, mut places): (BlockAddress, Vec<u64>)| {
            places.sort_unstable();
            places.dedup();
            OpenBlock { address, places }
        };
        blocks.into_iter().map(|blocks| blocks.into_iter().map(sorted).collect()).collect()
    }

    /// The state after the last row that was handed out.
    pub(super) fn snapshot(&self) -> Vec<u8> {
        let mut pieces = Vec::new();
        let mut rows = 0;
        let mut add = |row: &[Piece]| {
            pieces.extend(row.iter().map(|&piece| (piece, rows)));
            rows += 1;
        };
        self.packed.closed().for_each(|row| add(&row));
        let mut ages = Vec::new();
        for (age, row) in self.packed.open() {
            add(row);
            ages.push(age);
        }
        let closed = rows - ages.len();
        let (placed, open_blocks) = self.placed(&pieces);
        let pool = |(pool, open): (&PoolPlace, Option<u32>)| {
            let PoolPlace { next, credit, ended, exhausted, dealt, passes, .. } = *pool;
            let read = match &pool.current {
                Some(current) => Some(Some(current.hash)),
                None => {
                    pool.counted.filter(|(address, _)| *address == next.0).map(|(_, hash)| hash)
                }
            };
            let counted = read.is_some();
            let hashes = ReadHashes { next: read.flatten(), open, dealt };
            let EmptyPasses { unpacked_from, found, left: empty_passes_left, .. } = passes;
            PoolState {
                next,
                credit,
                ended,
                exhausted,
                counted,
                hashes,
                unpacked_from,
                found,
                empty_passes_left,
            }
        };
        let snapshot = LaneSnapshot {
            rows: self.rows,
            round: self.round,
            ended: self.ended,
            delivered_in_round: self.delivered_in_round,
            empty_passes_left: self.empty_passes_left,
            pools: self.pools.iter().zip(open_blocks).map(pool).collect(),
            closed,
            ages,
            pictures: Some(KnownPictures {
                rows: self.pictures_of_rows(&pieces),
                next: self.pools.iter().map(|pool| self.pictures_of_next(pool)).collect(),
            }),
            pieces: placed,
        };
        snapshot.to_bytes()
    }

    /// The hashes of the pictures of the documents of some pieces, in the order of their places.
    fn pictures_of_rows(&self, pieces: &[(Piece, usize)]) -> Vec<u32> {
        if self.held.iter().all(|held| held.pictures.is_empty()) {
            return Vec::new();
        }
        let first = self.packed.first_document();
        let of_piece = |(piece, _): &(Piece, usize)| {
            let number = first + u64::from(piece.document);
            let block = held(&self.held, number);
            ((block.pool, block.address, block.places[block.index(number)]), number)
        };
        let documents: BTreeMap<_, u64> = pieces.iter().map(of_piece).collect();
        let of_document = |&number: &u64| held(&self.held, number).pictures_of(number);
        documents.values().flat_map(of_document).copied().collect()
    }

    /// The hashes of the pictures of the documents that were counted with the next block of a pool, and not packed yet.
    fn pictures_of_next(&self, pool: &PoolPlace) -> Vec<u32> {
        let Some(current) = &pool.current else { return pool.shown.clone().unwrap_or_default() };
        let Some(first) = current.numbers.clone().next() else { return Vec::new() };
        let block = held(&self.held, first);
        if block.pictures.is_empty() {
            return Vec::new();
        }
        current.numbers.clone().flat_map(|number| block.pictures_of(number)).copied().collect()
    }

    /// Pieces with their places, ascending, and the hash of their blocks for each pool; `None` where there are none. Each piece comes
    /// with the number of its row.
    fn placed(&self, pieces: &[(Piece, usize)]) -> (Vec<RowPiece>, Vec<Option<u32>>) {
        // Numbers ascend as places do, in each pool.
        let number = |(piece, _): &(Piece, usize)| {
            (u64::from(piece.document) << u32::BITS) | u64::from(piece.start)
        };
        let mut order: Vec<(u64, usize)> = pieces.iter().map(number).zip(0..).collect();
        order.sort_unstable();
        let first = self.packed.first_document();
        let mut blocks = self.held.iter().peekable();
        // The documents of one block may lie in two: those of a state, and those that were read behind them.
        let mut hashes: Vec<Vec<u32>> = vec![Vec::new(); self.pools.len()];
        let mut last_blocks: Vec<Option<BlockAddress>> = vec![None; self.pools.len()];
        let place = |(_, index): (u64, usize)| {
            let (piece, row) = pieces[index];
            let number = first + u64::from(piece.document);
            while blocks.next_if(|held| held.end() <= number).is_some() {}
            let held = blocks.peek().expect("the block of a document in a row");
            if last_blocks[held.pool].replace(held.address) != Some(held.address) {
                hashes[held.pool].push(held.hash);
            }
            let at = held.index(number);
            let is_whole = piece.start == 0 && piece.length as usize == held.lengths[at];
            let part = (!is_whole).then_some((piece.start, piece.length));
            let StoredBlock { pool, address, .. } = **held;
            let document = DocumentPlace { pool, address, place: held.places[at] };
            RowPiece { piece: PiecePlace { document, part }, row, index }
        };
        let mut placed: Vec<RowPiece> = order.into_iter().map(place).collect();
        if self.pools.len() > 1 {
            placed.sort_by_key(|it| it.piece.document.pool);
        }
        let hash_of_pool = |hashes: &Vec<u32>| (!hashes.is_empty()).then(|| hash_of_blocks(hashes));
        (placed, hashes.iter().map(hash_of_pool).collect())
    }

    /// The first round of each pool that the state after the last row needs.
    pub(super) fn find_floors(&self) -> Vec<Round> {
        let first = self.packed.first_document();
        let next = |pool: &PoolPlace| if pool.exhausted { LAST } else { round_of(&pool.next.0) };
        let mut floors: Vec<Round> = self.pools.iter().map(next).collect();
        for piece in self.packed.pieces() {
            let held = held(&self.held, first + u64::from(piece.document));
            floors[held.pool] = floors[held.pool].min(round_of(&held.address));
        }
        floors
    }

    /// Makes the rows of a state again.
    pub(super) fn restore(
        &mut self,
        state: &LaneState,
        lane_context: &mut LaneContext<'_>,
    ) -> Result<()> {
        let mut numbers: BTreeMap<DocumentPlace, u64> = BTreeMap::new();
        for (pool, blocks) in Self::blocks_again(state, self.pools.len()).into_iter().enumerate() {
            for OpenBlock { address, places } in blocks {
                let block = (lane_context.take)(pool)?.filter(|block| block.address == address);
                let Some(block) = block else { return Err(missing()) };
                if let Some(end) = block.end {
                    return Err(end);
                }
                if let Some(lost) = &block.lost_picture {
                    return Err(picture_hashes::refuse_lost(lost));
                }
                if block.places != places {
                    return Err(missing());
                }
                let hash = block.hash;
                let (lengths, shown) =
                    (lengths_of(&block.documents), picture_hashes::hashes_of(&block.documents));
                let documents = self.store.push(block.documents, None);
                let first = documents.start;
                numbers.extend(
                    block
                        .places
                        .iter()
                        .map(|&place| DocumentPlace { pool, address, place })
                        .zip(documents),
                );
                self.held.push_back(StoredBlock {
                    pool,
                    address,
                    hash,
                    first,
                    places: block.places,
                    lengths,
                    pictures: shown,
                });
            }
        }
        if let Some(known) = &state.pictures {
            let documents = numbers.values().map(|&number| self.store.document(number));
            picture_hashes::compare(documents, &known.rows, None, |it| lane_context.origin_of(it))?;
        }
        let cutter = lane_context.cutter();
        let piece = |piece: &PiecePlace| -> Result<Piece> {
            let number = *numbers.get(&piece.document).ok_or_else(missing)?;
            let length = self.store.document(number).column(INPUTS).len();
            let length = u32::try_from(length).map_err(|_| missing())?;
            let (start, tokens) = piece.part.unwrap_or((0, length));
            if tokens == 0 || start.checked_add(tokens).is_none_or(|end| end > length) {
                return Err(missing());
            }
            let document = u32::try_from(number).map_err(|_| missing())?;
            Ok(cutter.piece(self.store.document(number), document, start, tokens))
        };
        let row = |pieces: &[PiecePlace]| -> Result<Vec<Piece>> {
            let row = pieces.iter().map(piece).collect::<Result<Vec<_>>>()?;
            let packing = &lane_context.options.rows.packing;
            let padded_lengths = row.iter().map(|it| u64::from(it.share(packing)));
            let room: u64 = padded_lengths.sum();
            let most = u64::from(packing.row_limit().get());
            if room > most {
                let reason = format!(
                    "holds an unfinished row of {room} tokens, and rows have {most} now; give a `max_length` and \
                     other limits of rows that are not below those of the state"
                );
                return Err(Error::option("state", reason));
            }
            if row.is_empty() { Err(missing()) } else { Ok(row) }
        };
        let chooses_rows = lane_context.pool_choice.chooses_rows();
        let of_packer = |pieces: &[PiecePlace]| -> Result<ClosedRow> {
            let packer =
                pieces.first().filter(|_| chooses_rows).map_or(0, |piece| piece.document.pool);
            Ok((packer, row(pieces)?))
        };
        let closed = state.closed.iter().map(|pieces| of_packer(pieces)).collect::<Result<_>>()?;
        let open = state.open.iter().map(|(age, pieces)| Ok((*age, of_packer(pieces)?)));
        let open = open.collect::<Result<_>>()?;
        if self.packed.reopen(closed, open) { Ok(()) } else { Err(missing()) }
    }
}

/// The error of a state whose documents are missing from the input.
pub(super) fn missing() -> Error {
    Error::option(
        "state",
        "names documents that this run does not read at their places; it is of other files or of another order, such as that of another `seed`, or a function that was given changes",
    )
}
