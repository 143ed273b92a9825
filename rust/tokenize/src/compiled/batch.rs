//! The loop that all compiled models share: pieces are cut and hashed first, and looked up after.
//!
//! Between the passes, the cache lines that the look-ups need are on their way. What no cache has is collected and
//! made together, for the same reason.

use std::ops::Range;

use super::memory::{Absent, BATCH, Memory, NOWHERE, Waiting};
use super::spans::Watch;
use crate::pieces::{Key, LONGEST, MOST, PieceCache};
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

    /// Where the first part of a long piece ends, which is encoded on its own; `whole` if nothing was cut off yet.
    fn cut(&self, piece: &[u8], _whole: bool) -> usize {
        piece.len()
    }

    /// Whether a part of a piece can have other ids than a piece of the same text.
    fn tells_parts(&self) -> bool {
        false
    }

    /// Says that [`Self::learn`] will be asked for a piece.
    fn expect(&self, _: Key) {}

    /// Puts the ids of all absent pieces into the cache, if that is faster than one at a time.
    fn learn(&self, _: &[u8], _: &mut Memory) {}

    /// Appends the ids of a piece, or of a part of one, that no cache has.
    fn miss(&self, piece: &[u8], part: bool, memory: &mut Memory, ids: &mut Vec<u32>);

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
    let mut begin = start;
    loop {
        memory.short.grow();
        let count = model.fill(text, &mut cursor, &mut memory.ends[..]);
        if count == 0 {
            return;
        }
        let mut at = begin;
        for index in 0..count {
            let end = memory.ends[index] as usize;
            if end - at <= LONGEST {
                wait(Key::new(text, at, end - at), end, memory);
            } else {
                begin = long(model, text, at..end, begin, memory, out);
            }
            at = end;
        }
        flush(model, text, begin, memory, out);
        begin = at;
    }
}

/// Lets a short piece wait.
#[inline]
fn wait(key: Key, end: usize, memory: &mut Memory) {
    let place = memory.short.place(key);
    memory.short.prefetch(place);
    memory.waiting.push(Waiting { key, place, end: position(end) });
}

/// Lets the parts of a long piece wait, and returns where what waits begins.
#[inline(never)]
fn long(
    model: &impl Pieces,
    text: &[u8],
    piece: Range<usize>,
    mut begin: usize,
    memory: &mut Memory,
    out: &mut Output<'_>,
) -> usize {
    let mut at = piece.start;
    while at < piece.end {
        let end = at + model.cut(&text[at..piece.end], at == piece.start);
        let part = model.tells_parts() && (at..end) != piece;
        if end - at <= LONGEST {
            let key = Key::new(text, at, end - at);
            wait(if part { key.part() } else { key }, end, memory);
        } else {
            let key = if part { Key::default().part() } else { Key::default() };
            memory.waiting.push(Waiting { key, place: NOWHERE, end: position(end) });
        }
        if memory.waiting.len() >= 2 * BATCH {
            flush(model, text, begin, memory, out);
            begin = end;
        }
        at = end;
    }
    begin
}

/// A position as it is stored; texts of 4 GiB and more never come here.
#[inline]
fn position(at: usize) -> u32 {
    u32::try_from(at).expect("a text is shorter than 4 GiB")
}

/// The second pass: what is in no cache is put there. The third: appends the ids of all that waits from `begin` on.
fn flush(
    model: &impl Pieces,
    text: &[u8],
    begin: usize,
    memory: &mut Memory,
    out: &mut Output<'_>,
) {
    let mut start = position(begin);
    for Waiting { key, place, end } in &memory.waiting {
        if !memory.short.has(*place, *key) && *place != NOWHERE {
            model.expect(*key);
            memory.absent.push(Absent { key: *key, place: *place, start, end: *end });
        }
        start = *end;
    }
    if !memory.absent.is_empty() {
        model.learn(text, memory);
        memory.absent.clear();
    }
    look_up(model, text, begin, memory, out);
    memory.waiting.clear();
}

/// Appends the ids of all pieces that wait.
fn look_up(
    model: &impl Pieces,
    text: &[u8],
    mut begin: usize,
    memory: &mut Memory,
    out: &mut Output<'_>,
) {
    let waiting = std::mem::take(&mut memory.waiting);
    let mut filled = out.ids.len();
    let mut left = &waiting[..];
    while !left.is_empty() {
        // Room for four ids a piece, so that those of the cache are copied without asking how many they are.
        let room = filled + MOST * left.len();
        if room > out.ids.len() {
            out.ids.resize(room, 0);
        }
        let watched = u32::try_from(out.watch.next()).unwrap_or(u32::MAX);
        let (count, copied) = copy(&memory.short, left, watched, &mut out.ids[filled..]);
        filled += copied;
        let (copied, after) = left.split_at(count);
        begin = copied.last().map_or(begin, |last| last.end as usize);
        let Some((Waiting { key, place, end }, after)) = after.split_first() else { break };
        let end = *end as usize;
        rest(model, &text[begin..end], *key, *place, memory);
        let behind = filled + memory.made.len();
        if behind > out.ids.len() {
            out.ids.resize(behind + BATCH, 0);
        }
        out.ids[filled..behind].copy_from_slice(&memory.made);
        if end > out.watch.next() {
            model.watch(text, begin, filled, &memory.made, out.origin, out.watch);
        }
        (begin, filled, left) = (end, behind, after);
    }
    out.ids.truncate(filled);
    memory.waiting = waiting;
}

/// Copies the ids of pieces that the cache has and nothing watches, and returns how many pieces and how many ids.
#[inline]
fn copy(short: &PieceCache, waiting: &[Waiting], watched: u32, ids: &mut [u32]) -> (usize, usize) {
    let mut filled = 0;
    for (index, Waiting { key, place, end }) in waiting.iter().enumerate() {
        let found = short.get(*place, *key).filter(|found| found.count <= MOST && *end <= watched);
        let room = ids.get_mut(filled..).and_then(<[u32]>::first_chunk_mut);
        let (Some(found), Some(room)) = (found, room) else { return (index, filled) };
        *room = found.all();
        filled += found.count;
    }
    (waiting.len(), filled)
}

/// Puts the ids of one piece into the memory for them.
#[inline(never)]
fn rest(model: &impl Pieces, piece: &[u8], key: Key, place: u32, memory: &mut Memory) {
    let mut made = std::mem::take(&mut memory.made);
    made.clear();
    let found = memory.short.get(place, key);
    let known = match found {
        Some(found) if found.count <= MOST => Some(&found.all()[..found.count]),
        None if place != NOWHERE => None,
        _ => memory.long.get(piece, key.is_part()),
    };
    if let Some(known) = known {
        made.extend_from_slice(known);
    } else {
        model.miss(piece, key.is_part(), memory, &mut made);
        if place != NOWHERE {
            memory.short.insert(place, key, &made);
        }
        if place == NOWHERE || made.len() > MOST {
            memory.long.insert(piece, key.is_part(), &made);
        }
    }
    memory.made = made;
}
