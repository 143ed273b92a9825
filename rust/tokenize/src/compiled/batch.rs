//! The loop that all compiled models share: pieces are cut and hashed first, and looked up after.
//!
//! Between the two passes, the cache lines that the look-ups need are on their way.

use std::ops::Range;

use super::memory::{BATCH, Memory, Waiting};
use super::spans::Watch;
use crate::pieces::{Key, LONGEST, MOST};
use crate::split::Cursor;

/// The bytes of a stretch, and where they come from.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'a> {
    /// For each byte its source, or nothing if text and source are the same.
    pub(crate) sources: Option<&'a [Range<usize>]>,
}

impl Origin<'_> {
    /// The source of `start..end`, which is not empty.
    pub(super) fn of(self, start: usize, end: usize) -> Range<usize> {
        match self.sources {
            None => start..end,
            Some(sources) => sources[start].start..sources[end - 1].end,
        }
    }
}

/// Where a model appends to.
pub(super) struct Output<'a> {
    pub(super) ids: &'a mut Vec<u32>,
    pub(super) watch: &'a mut Watch,
    pub(super) origin: Origin<'a>,
}

/// A model that encodes a stretch piece by piece.
pub(super) trait Pieces {
    /// Writes the ends of the next pieces, and returns how many.
    fn fill(&self, text: &[u8], cursor: &mut Cursor, ends: &mut [u32]) -> usize;

    /// Appends the ids of a piece that no cache has.
    fn miss(&self, piece: &[u8], memory: &mut Memory, ids: &mut Vec<u32>);

    /// Tells the watch where the tokens of `text[begin..]` come from; the first stands at `position`.
    fn watch(
        &self,
        text: &[u8],
        begin: usize,
        position: usize,
        ids: &[u32],
        origin: Origin<'_>,
        watch: &mut Watch,
    );
}

/// Appends the ids of `text[start..]`, a stretch that is cut on its own.
pub(super) fn encode(
    model: &impl Pieces,
    text: &[u8],
    start: usize,
    memory: &mut Memory,
    out: &mut Output<'_>,
) {
    let mut cursor = Cursor::new(start);
    loop {
        memory.short.grow();
        let begin = cursor.at;
        let count = model.fill(text, &mut cursor, &mut memory.ends[..]);
        if count == 0 {
            return;
        }
        let mut at = begin;
        for (end, waiting) in memory.ends[..count].iter().zip(memory.waiting.iter_mut()) {
            let length = *end as usize - at;
            if length <= LONGEST {
                let key = Key::new(text, at, length);
                let place = memory.short.place(key);
                memory.short.prefetch(place);
                *waiting = Waiting { key, place };
            }
            at = *end as usize;
        }
        look_up(model, text, begin, count, memory, out);
    }
}

/// The second pass: appends the ids of `count` pieces from `begin`.
fn look_up(
    model: &impl Pieces,
    text: &[u8],
    mut begin: usize,
    count: usize,
    memory: &mut Memory,
    out: &mut Output<'_>,
) {
    // Room for four ids a piece, so that those of the cache are copied without asking how many they are.
    let mut filled = out.ids.len();
    out.ids.resize(filled + MOST * count, 0);
    for index in 0..count {
        let end = memory.ends[index] as usize;
        let before = filled;
        let Waiting { key, place } = memory.waiting[index];
        let found = if end - begin <= LONGEST { memory.short.get(place, key) } else { None };
        match found {
            Some(found) if found.count <= MOST => {
                if let Some(room) = out.ids[filled..].first_chunk_mut() {
                    *room = found.all();
                }
                filled += found.count;
            }
            found => {
                let known = found.is_some() || end - begin > LONGEST;
                let mut made = std::mem::take(&mut memory.made);
                made.clear();
                let piece = &text[begin..end];
                let long = if known { memory.long.get(piece, false) } else { None };
                if let Some(long) = long {
                    made.extend_from_slice(long);
                } else {
                    model.miss(piece, memory, &mut made);
                    memory.remember(piece, &made);
                }
                let after = filled + made.len();
                let room = after + MOST * (count - index);
                if room > out.ids.len() {
                    out.ids.resize(room + BATCH, 0);
                }
                out.ids[filled..after].copy_from_slice(&made);
                filled = after;
                memory.made = made;
            }
        }
        if end > out.watch.next() {
            model.watch(text, begin, before, &out.ids[before..filled], out.origin, out.watch);
        }
        begin = end;
    }
    out.ids.truncate(filled);
}
