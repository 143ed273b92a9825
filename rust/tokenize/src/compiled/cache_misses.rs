//! The pieces of a batch that were missing in the cache of short pieces.
//!
//! Their ids are found or made together, and inserted between the ids of the other pieces.

use std::ops::Range;

use super::piece_encoder::{PieceEncoder, QueuedRun};
use super::thread_caches::{CacheMiss, NOWHERE, PendingPiece, QueuedPiece, STEP, ThreadMemory};
use crate::pieces::MOST;

/// Finds or makes the ids of the missing pieces.
#[inline(never)]
pub(super) fn fill(model: &impl PieceEncoder, run: &QueuedRun<'_>, memory: &mut ThreadMemory) {
    let mut gaps = std::mem::take(&mut memory.gaps);
    for CacheMiss { index, .. } in &gaps {
        let QueuedPiece { key, place, .. } = run.pieces[*index];
        if place == NOWHERE {
            memory.long.prefetch(&run.text[run.range(*index)], key.is_part());
        } else {
            memory.short.prefetch_other(place, key);
            model.expect(key);
        }
    }
    memory.absent.clear();
    memory.overflow.clear();
    for (number, gap) in gaps.iter_mut().enumerate() {
        let (range, waiting) = (run.range(gap.index), run.pieces[gap.index]);
        let known = holds(model, &waiting, range.len())
            && memory.recall(&run.text[range.clone()], &waiting, gap);
        if !known {
            memory.absent.push(PendingPiece { waiting, gap: number, start: range.start });
        }
    }
    if !memory.absent.is_empty() {
        model.learn(run.text, &mut gaps, memory);
    }
    let mut ids = std::mem::take(&mut memory.ids);
    for gap in gaps.iter_mut().filter(|gap| !gap.known) {
        let (piece, waiting) = (&run.text[run.range(gap.index)], &run.pieces[gap.index]);
        let held = holds(model, waiting, piece.len());
        // The same piece may have occurred earlier in the batch.
        if !held || !memory.recall(piece, waiting, gap) {
            ids.clear();
            model.miss(piece, waiting.key.is_part(), memory, &mut ids);
            if held {
                memory.remember(piece, waiting, &ids);
            }
            gap.fill(&ids, &mut memory.overflow);
        }
    }
    memory.ids = ids;
    memory.gaps = gaps;
}

/// True if the caches may hold a piece.
#[inline]
fn holds(model: &impl PieceEncoder, waiting: &QueuedPiece, length: usize) -> bool {
    waiting.place != NOWHERE || model.keeps(length)
}

/// Appends the ids of all pieces: the `copied` ids from the cache, and the ids of the gaps, which are known
/// by now.
#[inline]
pub(super) fn assemble(copied: usize, memory: &ThreadMemory, ids: &mut Vec<u32>) {
    let ThreadMemory { copied: known, positions, gaps, overflow, .. } = memory;
    if gaps.is_empty() {
        ids.extend_from_slice(&known[..copied]);
        return;
    }
    let mut filled = ids.len();
    let more: usize = gaps.iter().map(|gap| gap.count).sum();
    // Copying proceeds in whole steps, past the end of the wanted ids; the surplus is overwritten.
    ids.resize(filled + copied + more + STEP, 0);
    let mut begin = 0;
    for CacheMiss { index, count, ids: found, from, .. } in gaps {
        let end = positions[*index];
        copy(known, begin..end, &mut ids[filled..]);
        filled += end - begin;
        begin = end;
        if *count <= MOST {
            ids[filled..filled + MOST].copy_from_slice(found);
        } else {
            ids[filled..filled + count].copy_from_slice(&overflow[*from..from + count]);
        }
        filled += count;
    }
    copy(known, begin..copied, &mut ids[filled..]);
    ids.truncate(filled + copied - begin);
}

/// Copies a range to the start of `to`, in whole steps: up to [`STEP`] more ids are read and written, so both
/// need room.
#[inline]
fn copy(from: &[u32], range: Range<usize>, to: &mut [u32]) {
    let steps = from[range.start..].chunks(STEP).zip(to.chunks_mut(STEP));
    for (from, to) in steps.take((range.len()).div_ceil(STEP)) {
        if let (Some(from), Some(to)) = (from.first_chunk::<STEP>(), to.first_chunk_mut::<STEP>()) {
            *to = *from;
        }
    }
}
