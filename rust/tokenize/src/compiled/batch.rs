//! The loop that all compiled models share: pieces are cut and hashed first, and looked up afterwards.
//!
//! Between the two passes, the cache lines that the look-ups need are prefetched. Pieces that no cache has
//! are collected and encoded together, for the same reason.

use std::ops::Range;

use super::cache_misses;
use super::piece_encoder::{PieceEncoder, QueuedRun};
use super::spans::{OffsetTracker, SourceRanges};
use super::thread_caches::{BATCH, CacheMiss, NOWHERE, QueuedPiece, ThreadMemory};
use crate::pieces::{LONGEST, MOST, PieceCache, PieceKey};
use crate::split::{SplitCursor, position};

/// The buffers that a model appends to.
pub(super) struct EncodingOutput<'a> {
    pub(super) ids: &'a mut Vec<u32>,
    pub(super) offset_tracker: &'a mut OffsetTracker,
    pub(super) origin: SourceRanges<'a>,
}

/// Appends the ids of `text[start..]`, a stretch that is cut on its own.
pub(super) fn encode(
    model: &impl PieceEncoder,
    text: &[u8],
    start: usize,
    memory: &mut ThreadMemory,
    out: &mut EncodingOutput<'_>,
) {
    encode_from(model, text, start, SplitCursor::new(start), memory, out);
}

/// As [`encode`], for a model whose cursor counts pieces.
pub(super) fn encode_listed(
    model: &impl PieceEncoder,
    text: &[u8],
    start: usize,
    memory: &mut ThreadMemory,
    out: &mut EncodingOutput<'_>,
) {
    encode_from(model, text, start, SplitCursor::new(0), memory, out);
}

/// Appends the ids of the pieces that the model cuts with `cursor`; the first begins at `start`.
#[inline]
fn encode_from(
    model: &impl PieceEncoder,
    text: &[u8],
    start: usize,
    mut cursor: SplitCursor,
    memory: &mut ThreadMemory,
    out: &mut EncodingOutput<'_>,
) {
    let (mut begin, mut at) = (start, start);
    let mut ends = std::mem::take(&mut memory.ends);
    loop {
        memory.make_room();
        if memory.is_stopped() {
            break;
        }
        let count = model.fill(text, &mut cursor, &mut ends[..]);
        if count == 0 {
            break;
        }
        let mut rest = &ends[..count];
        loop {
            let short = wait(text, at, rest, memory);
            at = short.checked_sub(1).map_or(at, |last| rest[last] as usize);
            let Some((end, after)) = rest[short..].split_first() else { break };
            begin = long(model, text, at..*end as usize, begin, memory, out);
            (at, rest) = (*end as usize, after);
        }
        flush(model, text, begin, memory, out);
        begin = at;
    }
    memory.ends = ends;
}

/// Queues the leading pieces that are short, and returns their number.
#[inline]
fn wait(text: &[u8], mut begin: usize, ends: &[u32], memory: &mut ThreadMemory) -> usize {
    let ThreadMemory { short, waiting, count: waits, .. } = memory;
    let mut count = 0;
    for (end, place) in ends.iter().zip(&mut waiting[*waits..]) {
        let length = *end as usize - begin;
        if length > LONGEST {
            break;
        }
        *place = short_piece(PieceKey::new(text, begin, length), *end, short);
        begin = *end as usize;
        count += 1;
    }
    *waits += count;
    count
}

/// A queued short piece, whose set in the cache is prefetched.
#[inline]
fn short_piece(key: PieceKey, end: u32, cache: &PieceCache) -> QueuedPiece {
    let place = cache.place(key);
    cache.prefetch(place);
    QueuedPiece { key, place, end }
}

/// Queues the parts of a long piece, and returns the start of the queued text.
#[inline(never)]
fn long(
    model: &impl PieceEncoder,
    text: &[u8],
    piece: Range<usize>,
    mut begin: usize,
    memory: &mut ThreadMemory,
    out: &mut EncodingOutput<'_>,
) -> usize {
    let mut at = piece.start;
    while at < piece.end {
        if memory.is_stopped() {
            // Nobody reads the ids, but each piece has to begin at the end of the piece before it.
            memory.count = 0;
            return piece.end;
        }
        let end = at + model.cut(&text[at..piece.end], at == piece.start);
        let part = model.parts_have_other_ids() && (at..end) != piece;
        let waiting = if end - at <= LONGEST {
            let key = PieceKey::new(text, at, end - at);
            short_piece(if part { key.part() } else { key }, position(end), &memory.short)
        } else {
            let key = if part { PieceKey::default().part() } else { PieceKey::default() };
            QueuedPiece { key, place: NOWHERE, end: position(end) }
        };
        memory.waiting[memory.count] = waiting;
        memory.count += 1;
        if memory.count >= 2 * BATCH {
            flush(model, text, begin, memory, out);
            begin = end;
        }
        at = end;
    }
    begin
}

/// The second pass: appends the ids of all queued pieces from `begin` on.
fn flush(
    model: &impl PieceEncoder,
    text: &[u8],
    begin: usize,
    memory: &mut ThreadMemory,
    out: &mut EncodingOutput<'_>,
) {
    if memory.count == 0 {
        return;
    }
    let waiting = std::mem::take(&mut memory.waiting);
    let run = QueuedRun { text, begin, pieces: &waiting[..memory.count] };
    memory.count = 0;
    let copied = answer(run.pieces, memory);
    if !memory.gaps.is_empty() {
        cache_misses::fill(model, &run, memory);
    }
    let from = out.ids.len();
    cache_misses::assemble(copied, memory, out.ids);
    if run.range(run.pieces.len() - 1).end > out.offset_tracker.next() {
        record_ranges(model, &run, from, copied, memory, out);
    }
    memory.waiting = waiting;
}

/// Copies the ids of the pieces that the cache has, notes the position of each piece's ids and the pieces
/// that are missing, and returns the number of ids.
#[inline]
fn answer(pieces: &[QueuedPiece], memory: &mut ThreadMemory) -> usize {
    let sets = memory.short.sets();
    let ThreadMemory { copied, positions, missing, gaps, .. } = memory;
    let (positions, missing) = (&mut positions[..pieces.len()], &mut missing[..pieces.len()]);
    let copied = &mut copied[..];
    let (mut filled, mut count) = (0, 0);
    for (index, (piece, position)) in pieces.iter().zip(positions).enumerate() {
        *position = filled;
        let found = sets.get(piece.place, piece.key).unwrap_or_default();
        // [`MOST`] ids are copied for each piece, and the next piece overwrites the surplus: neither the
        // number of ids nor the missing pieces can be predicted. There is always room; `get_mut` is used
        // because a bounds check that panics costs 2 % of a warm pass.
        debug_assert!(filled + MOST <= copied.len(), "room for the ids of every piece");
        if let Some(room) = copied.get_mut(filled..filled + MOST) {
            room.copy_from_slice(&found.all());
        }
        filled += found.count();
        missing[count] = index;
        count += usize::from(!found.is_whole());
    }
    gaps.clear();
    gaps.extend(
        missing[..count].iter().map(|index| CacheMiss { index: *index, ..CacheMiss::default() }),
    );
    filled
}

/// Records the source ranges of the ids of the pieces that the tracker needs; the ids of the first piece are
/// at `from`.
#[inline(never)]
fn record_ranges(
    model: &impl PieceEncoder,
    run: &QueuedRun<'_>,
    mut from: usize,
    copied: usize,
    memory: &ThreadMemory,
    out: &mut EncodingOutput<'_>,
) {
    let ThreadMemory { positions, gaps, .. } = memory;
    let mut gaps = gaps.iter().peekable();
    let mut index = 0;
    loop {
        index = match out.offset_tracker.next() {
            usize::MAX => return,
            byte => run.behind(index, byte),
        };
        let Some(position) = positions[..run.pieces.len()].get(index) else { return };
        while let Some(gap) = gaps.next_if(|gap| gap.index < index) {
            from += gap.count;
        }
        let start = from + position;
        let count = match gaps.peek() {
            Some(gap) if gap.index == index => gap.count,
            _ => {
                let after = positions[..run.pieces.len()].get(index + 1);
                let end = after.map_or(copied, |after| *after);
                end - position
            }
        };
        let ids = &out.ids[start..start + count];
        let Range { start: begin, end } = run.range(index);
        model.record_offsets(&run.text[..end], begin, start, ids, out.origin, out.offset_tracker);
        index += 1;
    }
}
