//! [`LaneState`]: the position of a lane in a compact form: its place in each pool, and the places of the
//! documents of its open rows.

use crate::stream::lane::record_order::BlockAddress;
use crate::util::bits::{BitReader, BitWriter};

/// Bits of the number of a document among those of its record, at the end of its place in the order of its block.
const NUMBER_BITS: u32 = 16;

/// The place of a document in the order of its block: after the places of records before its own, and after the
/// documents before it of its own. `None` if its record has too many.
pub(crate) fn place_of(record: u64, number: u64) -> Option<u64> {
    let fits = number < 1 << NUMBER_BITS && record < 1 << (u64::BITS - NUMBER_BITS);
    fits.then_some((record << NUMBER_BITS) | number)
}

/// The place of the record of a document, and the number of the document among those of its record.
pub(crate) fn record_and_number(place: u64) -> (u64, u64) {
    (place >> NUMBER_BITS, place & ((1 << NUMBER_BITS) - 1))
}

/// The place of a document: the pool, the block, and the place in the order of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DocumentPlace {
    pub(crate) pool: usize,
    pub(crate) address: BlockAddress,
    pub(crate) place: u64,
}

/// A piece of a row, by the place of its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PiecePlace {
    pub(crate) document: DocumentPlace,
    /// The first token and the number of tokens, unless the piece is a whole document.
    pub(crate) part: Option<(u32, u32)>,
}

/// The hashes of the records that a lane has read of a pool, if known: then records that differ are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadHashes {
    /// The hash of the records of the next block, if they were read.
    pub(crate) next: Option<u32>,
    /// The hash of the blocks with documents of open rows, which are read again.
    pub(crate) open: Option<u32>,
    /// The hash of the extents that the lane reads in the portion of the next block, once it has read a block.
    pub(crate) dealt: Option<u32>,
}

impl ReadHashes {
    fn write(self, bits: &mut BitWriter) {
        let Self { next, open, dealt } = self;
        for hash in [next, open, dealt] {
            bits.push_bits(u64::from(hash.is_some()), 1);
            if let Some(hash) = hash {
                bits.push_bits(u64::from(hash), HASH);
            }
        }
    }

    /// The hashes; `None` if the bytes are invalid.
    fn read(bits: &mut BitReader<'_>) -> Option<Self> {
        let mut hashes = Self::default();
        for hash in [&mut hashes.next, &mut hashes.open, &mut hashes.dealt] {
            if bits.take(1)? == 1 {
                *hash = Some(u32::try_from(bits.take(HASH)?).ok()?);
            }
        }
        Some(hashes)
    }
}

/// The hashes of the pictures that are read again with the records of a state: they may have changed though the records have not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownPictures {
    /// Of the documents of rows, ascending by their places.
    pub(crate) rows: Vec<u32>,
    /// Of the documents of the next block of each pool that are counted and not packed.
    pub(crate) next: Vec<Vec<u32>>,
}

impl KnownPictures {
    fn write(&self, bits: &mut BitWriter) {
        bits.number(self.next.len() as u64);
        for hashes in [&self.rows].into_iter().chain(&self.next) {
            bits.number(hashes.len() as u64);
            for hash in hashes {
                bits.push_bits(u64::from(*hash), HASH);
            }
        }
    }

    /// The hashes; `None` if the bytes are invalid.
    fn read(bits: &mut BitReader<'_>) -> Option<Self> {
        let hashes = |bits: &mut BitReader<'_>| {
            let mut hashes = Vec::new();
            for _ in 0..bits.number()? {
                hashes.push(u32::try_from(bits.take(HASH)?).ok()?);
            }
            Some(hashes)
        };
        let pools = bits.number()?;
        let rows = hashes(bits)?;
        let mut next = Vec::new();
        for _ in 0..pools {
            next.push(hashes(bits)?);
        }
        Some(Self { rows, next })
    }
}

/// The place of a lane in a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "four facts that do not depend on each other")]
pub(crate) struct PoolState {
    /// The next block, and the place of the next document in it.
    pub(crate) next: (BlockAddress, u64),
    /// The credit of the pool, in parts of a unit of its weight.
    pub(crate) credit: i64,
    /// True if it gives no more documents in this round, and in any.
    pub(crate) ended: bool,
    pub(crate) exhausted: bool,
    /// True if the records of the next block are counted already.
    pub(crate) counted: bool,
    pub(crate) hashes: ReadHashes,
    /// The place from which on no document was packed, and whether there was one.
    pub(crate) unpacked_from: BlockAddress,
    pub(crate) found: bool,
    /// The further passes that may pack none before it is given up.
    pub(crate) empty_passes_left: u64,
}

/// The position of a lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaneState {
    /// The number of delivered rows.
    pub(crate) rows: u64,
    /// The number of times that all epochs were read to their end.
    pub(crate) round: u64,
    /// True if no row follows in this round.
    pub(crate) ended: bool,
    /// True if a row of this round was delivered.
    pub(crate) delivered_in_round: bool,
    /// The further rounds that may give no row before the lane is given up.
    pub(crate) empty_passes_left: u64,
    pub(crate) pools: Vec<PoolState>,
    /// Rows that are closed but not delivered, in order.
    pub(crate) closed: Vec<Vec<PiecePlace>>,
    /// The open rows with their ages. The last row is the one that was added to last.
    pub(crate) open: Vec<(u64, Vec<PiecePlace>)>,
    /// The pictures that are read again, if they are compared.
    pub(crate) pictures: Option<KnownPictures>,
}

/// A piece of a row that is not delivered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowPiece {
    pub(crate) piece: PiecePlace,
    /// The number of its row, and its index among the pieces of all rows, row by row.
    pub(crate) row: usize,
    pub(crate) index: usize,
}

/// The parts of a lane's position that are written.
pub(crate) struct LaneSnapshot {
    pub(crate) rows: u64,
    pub(crate) round: u64,
    pub(crate) ended: bool,
    pub(crate) delivered_in_round: bool,
    pub(crate) empty_passes_left: u64,
    pub(crate) pools: Vec<PoolState>,
    /// The number of rows that are closed but not delivered. They come first.
    pub(crate) closed: usize,
    /// The ages of the open rows.
    pub(crate) ages: Vec<u64>,
    /// The pieces of all rows, ascending by place.
    pub(crate) pieces: Vec<RowPiece>,
    pub(crate) pictures: Option<KnownPictures>,
}

impl LaneSnapshot {
    /// The position as compact bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bits = BitWriter::default();
        bits.number(self.rows);
        bits.number(self.round);
        bits.push_bits(u64::from(self.ended), 1);
        bits.push_bits(u64::from(self.delivered_in_round), 1);
        bits.number(self.empty_passes_left);
        bits.number(self.pools.len() as u64);
        for pool in &self.pools {
            let PoolState { next: (address, place), credit, ended, exhausted, .. } = pool;
            write_address(&mut bits, address);
            let (record, number) = record_and_number(*place);
            bits.number(record);
            bits.rice(number, 0);
            // The sign is the lowest bit, so that small numbers stay short.
            bits.number((credit.unsigned_abs() << 1) | u64::from(*credit < 0));
            // Mostly a document of the last block was packed.
            let is_near = pool.unpacked_from == address.next_block();
            for is in [*ended, *exhausted, pool.counted, pool.found, is_near] {
                bits.push_bits(u64::from(is), 1);
            }
            if !is_near {
                write_address(&mut bits, &pool.unpacked_from);
            }
            pool.hashes.write(&mut bits);
            bits.number(pool.empty_passes_left);
        }
        write_pieces(&mut bits, &self.pieces);
        bits.number(self.closed as u64);
        bits.number(self.ages.len() as u64);
        for age in &self.ages {
            bits.number(*age);
        }
        let count = self.closed + self.ages.len();
        // If the pieces of each row are in input order, the row number of each piece is enough.
        let mut next = vec![0; count];
        let sorted = self.pieces.iter().all(|it| {
            let is_after = it.index >= next[it.row];
            next[it.row] = it.index + 1;
            is_after
        });
        bits.push_bits(u64::from(sorted), 1);
        if sorted {
            let size = bits_for(count);
            self.pieces.iter().for_each(|it| bits.push_bits(it.row as u64, size));
        } else {
            let mut lengths = vec![0; count];
            let mut ranks = vec![0_u64; self.pieces.len()];
            for (rank, it) in (0..).zip(&self.pieces) {
                lengths[it.row] += 1;
                ranks[it.index] = rank;
            }
            let size = bits_for(self.pieces.len());
            let mut ranks = ranks.into_iter();
            for length in lengths {
                bits.number(length);
                (0..length)
                    .filter_map(|_| ranks.next())
                    .for_each(|rank| bits.push_bits(rank, size));
            }
        }
        bits.push_bits(u64::from(self.pictures.is_some()), 1);
        if let Some(pictures) = &self.pictures {
            pictures.write(&mut bits);
        }
        bits.into_bytes()
    }
}

impl LaneState {
    /// The state as compact bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let all = self.closed.iter().chain(self.open.iter().map(|(_, row)| row));
        let pieces = (0..).zip(all).flat_map(|(row, it)| it.iter().map(move |piece| (row, *piece)));
        let pieces = pieces.zip(0..).map(|((row, piece), index)| RowPiece { piece, row, index });
        let mut pieces: Vec<RowPiece> = pieces.collect();
        pieces.sort_by_key(|it| it.piece);
        let snapshot = LaneSnapshot {
            rows: self.rows,
            round: self.round,
            ended: self.ended,
            delivered_in_round: self.delivered_in_round,
            empty_passes_left: self.empty_passes_left,
            pools: self.pools.clone(),
            closed: self.closed.len(),
            ages: self.open.iter().map(|(age, _)| *age).collect(),
            pieces,
            pictures: self.pictures.clone(),
        };
        snapshot.to_bytes()
    }

    /// The state from its bytes; `None` if they are invalid.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut bits = BitReader::new(bytes);
        let (delivered, round) = (bits.number()?, bits.number()?);
        let (ended, delivered_in_round) = (bits.take(1)? == 1, bits.take(1)? == 1);
        let empty_passes_left = bits.number()?;
        let mut pools = Vec::new();
        for _ in 0..bits.number()? {
            let (address, record) = (read_address(&mut bits)?, bits.number()?);
            let next = (address, place_of(record, bits.rice(0)?)?);
            let credit = bits.number()?;
            let size = i64::try_from(credit >> 1).ok()?;
            let credit = if credit & 1 == 1 { -size } else { size };
            let mut is = || Some(bits.take(1)? == 1);
            let (ended, exhausted, counted, found, is_near) = (is()?, is()?, is()?, is()?, is()?);
            let unpacked_from =
                if is_near { address.next_block() } else { read_address(&mut bits)? };
            let (hashes, empty_passes_left) = (ReadHashes::read(&mut bits)?, bits.number()?);
            pools.push(PoolState {
                next,
                credit,
                ended,
                exhausted,
                counted,
                hashes,
                unpacked_from,
                found,
                empty_passes_left,
            });
        }
        let pieces = read_pieces(&mut bits)?;
        let (closed, open) = (bits.number()?, bits.number()?);
        let mut ages = Vec::new();
        for _ in 0..open {
            ages.push(bits.number()?);
        }
        let count = usize::try_from(closed.checked_add(open)?).ok()?;
        let sorted = bits.take(1)? == 1;
        // Every row has a piece, so a larger count is invalid.
        if count > pieces.len() {
            return None;
        }
        let mut rows = vec![Vec::new(); count];
        if sorted {
            for piece in &pieces {
                let number = usize::try_from(bits.take(bits_for(count))?).ok()?;
                rows.get_mut(number)?.push(*piece);
            }
        } else {
            for row in &mut rows {
                for _ in 0..bits.number()? {
                    let piece = usize::try_from(bits.take(bits_for(pieces.len()))?).ok()?;
                    row.push(*pieces.get(piece)?);
                }
            }
        }
        let open = rows.split_off(usize::try_from(closed).ok()?);
        let open = ages.into_iter().zip(open).collect();
        let (rows, closed) = (delivered, rows);
        let pictures =
            if bits.take(1)? == 1 { Some(KnownPictures::read(&mut bits)?) } else { None };
        Some(Self {
            rows,
            round,
            ended,
            delivered_in_round,
            empty_passes_left,
            pools,
            closed,
            open,
            pictures,
        })
    }
}

/// True if two blocks are of extents in the same list, the second at the first or after it.
fn same_list(a: &BlockAddress, b: &BlockAddress) -> bool {
    let list = |it: &BlockAddress| (it.epoch, it.pass, it.portion);
    list(a) == list(b) && (a.extent, a.block) <= (b.extent, b.block)
}

/// The bits needed for numbers below `count`.
fn bits_for(count: usize) -> u32 {
    // At least one bit, so that the length of the data bounds the number of values.
    (usize::BITS - count.saturating_sub(1).leading_zeros()).max(1)
}

/// The bits of a hash.
const HASH: u32 = 32;

fn write_address(bits: &mut BitWriter, address: &BlockAddress) {
    let BlockAddress { epoch, pass, portion, extent, block } = *address;
    for number in [epoch, pass, portion, extent, block] {
        bits.number(number);
    }
}

fn read_address(bits: &mut BitReader<'_>) -> Option<BlockAddress> {
    let mut number = || bits.number();
    Some(BlockAddress {
        epoch: number()?,
        pass: number()?,
        portion: number()?,
        extent: number()?,
        block: number()?,
    })
}

/// Writes ascending pieces, block by block.
fn write_pieces(bits: &mut BitWriter, pieces: &[RowPiece]) {
    let block_of = |it: &RowPiece| (it.piece.document.pool, it.piece.document.address);
    let blocks = || pieces.chunk_by(|a, b| block_of(a) == block_of(b));
    bits.number(blocks().count() as u64);
    let mut before: Option<(usize, BlockAddress)> = None;
    for block in blocks() {
        let (pool, address) = block_of(&block[0]);
        let near = before.filter(|before| before.0 == pool);
        bits.push_bits(u64::from(near.is_some()), 1);
        if near.is_none() {
            bits.number(pool as u64);
        }
        // Most blocks follow shortly after the block before them.
        match near {
            Some((_, near)) if same_list(&near, &address) => {
                bits.push_bits(1, 1);
                let extents = address.extent - near.extent;
                bits.rice(extents, 1);
                bits.number(if extents == 0 { address.block - near.block } else { address.block });
            }
            _ => {
                bits.push_bits(0, 1);
                write_address(bits, &address);
            }
        }
        bits.rice(block.len() as u64 - 1, 2);
        let parts = block.iter().any(|it| it.piece.part.is_some());
        bits.push_bits(u64::from(parts), 1);
        // Most records are one document.
        let several = block.iter().any(|it| record_and_number(it.piece.document.place).1 > 0);
        bits.push_bits(u64::from(several), 1);
        let mut last = 0;
        for PiecePlace { document, part } in block.iter().map(|it| it.piece) {
            let (record, number) = record_and_number(document.place);
            bits.rice(record - last, 2);
            last = record;
            if several {
                bits.rice(number, 1);
            }
            if parts {
                bits.push_bits(u64::from(part.is_some()), 1);
            }
            if let Some((start, length)) = part {
                bits.number(u64::from(start));
                bits.number(u64::from(length));
            }
        }
        before = Some((pool, address));
    }
}

fn read_pieces(bits: &mut BitReader<'_>) -> Option<Vec<PiecePlace>> {
    let mut pieces = Vec::new();
    let mut before: Option<(usize, BlockAddress)> = None;
    for _ in 0..bits.number()? {
        let same_pool = bits.take(1)? == 1;
        let pool = if same_pool { before?.0 } else { usize::try_from(bits.number()?).ok()? };
        let address = if bits.take(1)? == 1 {
            let near = before?.1;
            let extents = bits.rice(1)?;
            let block = bits.number()?;
            let block = if extents == 0 { near.block.checked_add(block)? } else { block };
            BlockAddress { extent: near.extent.checked_add(extents)?, block, ..near }
        } else {
            read_address(bits)?
        };
        let count = bits.rice(2)?.checked_add(1)?;
        let parts = bits.take(1)? == 1;
        let several = bits.take(1)? == 1;
        let mut record = 0_u64;
        for _ in 0..count {
            record = record.checked_add(bits.rice(2)?)?;
            let place = place_of(record, if several { bits.rice(1)? } else { 0 })?;
            let part = if parts && bits.take(1)? == 1 {
                let (start, length) = (bits.number()?, bits.number()?);
                Some((u32::try_from(start).ok()?, u32::try_from(length).ok()?))
            } else {
                None
            };
            let document = DocumentPlace { pool, address, place };
            pieces.push(PiecePlace { document, part });
        }
        before = Some((pool, address));
    }
    Some(pieces)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address() -> impl Strategy<Value = BlockAddress> {
        (0..3_u64, 0..2_u64, 0..3_u64, 0..50_u64, 0..4_u64).prop_map(
            |(epoch, pass, portion, extent, block)| BlockAddress {
                epoch,
                pass,
                portion,
                extent,
                block,
            },
        )
    }

    fn piece() -> impl Strategy<Value = PiecePlace> {
        let part = prop::option::of((any::<u32>(), any::<u32>()));
        let place = (0..200_u64, prop_oneof![Just(0), 0..5_u64])
            .prop_filter_map("a place", |(record, number)| place_of(record, number));
        (0..3_usize, address(), place, part).prop_map(|(pool, address, place, part)| PiecePlace {
            document: DocumentPlace { pool, address, place },
            part,
        })
    }

    fn state() -> impl Strategy<Value = LaneState> {
        let row = || prop::collection::vec(piece(), 1..9);
        let place = (0..1_u64 << 40, 0..9_u64)
            .prop_filter_map("a place", |(record, number)| place_of(record, number));
        let numbers = (place, -1_000_000_i64..1_000_000, 0..100_u64, prop::option::of(address()));
        let hashes = any::<[Option<u32>; 3]>().prop_map(|[next, open, dealt]| ReadHashes {
            next,
            open,
            dealt,
        });
        let pool = (address(), numbers, any::<[bool; 4]>(), hashes).prop_map(
            |(
                address,
                (place, credit, empty_passes_left, from),
                [ended, exhausted, counted, found],
                hashes,
            )| {
                let unpacked_from = from.unwrap_or(address.next_block());
                PoolState {
                    next: (address, place),
                    credit,
                    ended,
                    exhausted,
                    counted,
                    hashes,
                    unpacked_from,
                    found,
                    empty_passes_left,
                }
            },
        );
        let rows = prop::collection::vec(row(), 0..3);
        let open = prop::collection::vec((any::<u64>(), row()), 0..20);
        let numbers = (any::<u64>(), any::<u64>(), any::<bool>(), any::<bool>(), 0..100_u64);
        let hashes = || prop::collection::vec(any::<u32>(), 0..5);
        let pictures = (hashes(), prop::collection::vec(hashes(), 0..4))
            .prop_map(|(rows, next)| KnownPictures { rows, next });
        let pictures = prop::option::of(pictures);
        (numbers, prop::collection::vec(pool, 0..4), rows, open, pictures).prop_map(
            |(
                (rows, round, ended, delivered_in_round, empty_passes_left),
                pools,
                closed,
                open,
                pictures,
            )| LaneState {
                rows,
                round,
                ended,
                delivered_in_round,
                empty_passes_left,
                pools,
                closed,
                open,
                pictures,
            },
        )
    }

    proptest! {
        #[test]
        fn a_state_is_read_as_it_was_written(state in state()) {
            prop_assert_eq!(LaneState::from_bytes(&state.to_bytes()), Some(state));
        }

        #[test]
        fn any_bytes_are_a_state_or_none(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = LaneState::from_bytes(&bytes);
        }
    }
}
