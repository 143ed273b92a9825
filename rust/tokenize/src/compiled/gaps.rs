//! The pieces of a batch that were not where they were looked for first.
//!
//! Their ids are found or made, together, and put between those of the others.

use std::ops::Range;

use super::batch::{Pieces, Run, position};
use super::memory::{Absent, Gap, Memory, NOWHERE, STEP, Waiting};
use crate::pieces::MOST;

/// Finds or makes the ids of the pieces that were not copied.
#[inline(never)]
pub(super) fn fill(model: &impl Pieces, run: &Run<'_>, memory: &mut Memory) {
    let mut gaps = std::mem::take(&mut memory.gaps);
    for Gap { index, .. } in &gaps {
        let Waiting { key, place, .. } = run.pieces[*index];
        if place == NOWHERE {
            memory.long.prefetch(&run.text[run.range(*index)], key.is_part());
        } else {
            memory.short.prefetch_other(place, key);
            model.expect(key);
        }
    }
    memory.absent.clear();
    for (number, gap) in gaps.iter_mut().enumerate() {
        let at = gap.index;
        let Waiting { key, place, end } = run.pieces[at];
        if place == NOWHERE {
            continue;
        }
        if let Some(found) = memory.short.get(key) {
            (gap.ids, gap.count, gap.known) = (found.all(), found.count(), found.is_whole());
        } else {
            let start = position(run.range(at).start);
            memory.absent.push(Absent { key, gap: number, start, end });
        }
    }
    if !memory.absent.is_empty() {
        model.learn(run.text, &mut gaps, memory);
    }
    memory.made.clear();
    for gap in gaps.iter_mut().filter(|gap| !gap.known) {
        let at = gap.index;
        let (piece, before) = (&run.text[run.range(at)], memory.made.len());
        rest(model, piece, &run.pieces[at], memory);
        let made = &memory.made[before..];
        gap.fill(made);
        if gap.known {
            memory.made.truncate(before);
        } else {
            gap.count = made.len();
        }
    }
    memory.gaps = gaps;
}

/// Appends the ids of one piece to the memory for them.
fn rest(model: &impl Pieces, piece: &[u8], waiting: &Waiting, memory: &mut Memory) {
    let Waiting { key, place, .. } = *waiting;
    let short = if place == NOWHERE { None } else { memory.short.get(key) };
    if let Some(found) = short.filter(|found| found.is_whole()) {
        memory.made.extend(found.ids());
        return;
    }
    let is_long = place == NOWHERE || short.is_some();
    if is_long && let Some(known) = memory.long.get(piece, key.is_part()) {
        memory.made.extend_from_slice(known);
        return;
    }
    let mut made = std::mem::take(&mut memory.made);
    let before = made.len();
    model.miss(piece, key.is_part(), memory, &mut made);
    let ids = &made[before..];
    if place != NOWHERE && short.is_none() {
        memory.short.insert(key, ids);
    }
    if place == NOWHERE || ids.len() > MOST {
        memory.long.insert(piece, key.is_part(), ids);
    }
    memory.made = made;
}

/// Appends the ids of the pieces: `copied` of them were copied, and those of the gaps are found by now.
#[inline]
pub(super) fn assemble(copied: usize, memory: &Memory, ids: &mut Vec<u32>) {
    let Memory { copied: known, positions, gaps, made, .. } = memory;
    if gaps.is_empty() {
        ids.extend_from_slice(&known[..copied]);
        return;
    }
    let mut filled = ids.len();
    let more: usize = gaps.iter().map(|gap| gap.count).sum();
    // Copying goes on in steps behind what is wanted, and is written over.
    ids.resize(filled + copied + more + STEP, 0);
    let (mut begin, mut taken) = (0, 0);
    for Gap { index, count, ids: found, .. } in gaps {
        let end = positions[*index];
        copy(known, begin..end, &mut ids[filled..]);
        filled += end - begin;
        begin = end;
        if *count <= MOST {
            ids[filled..filled + MOST].copy_from_slice(found);
        } else {
            ids[filled..filled + count].copy_from_slice(&made[taken..taken + count]);
            taken += count;
        }
        filled += count;
    }
    copy(known, begin..copied, &mut ids[filled..]);
    ids.truncate(filled + copied - begin);
}

/// Copies a range to the start of `to`, in steps: up to [`STEP`] more are read and written, for which there is room.
#[inline]
fn copy(from: &[u32], range: Range<usize>, to: &mut [u32]) {
    let steps = from[range.start..].chunks(STEP).zip(to.chunks_mut(STEP));
    for (from, to) in steps.take((range.len()).div_ceil(STEP)) {
        if let (Some(from), Some(to)) = (from.first_chunk::<STEP>(), to.first_chunk_mut::<STEP>()) {
            *to = *from;
        }
    }
}
