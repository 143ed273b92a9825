//! The loop that all compiled models share: pieces are cut and hashed first, and looked up after.
//!
//! Between the passes, the cache lines that the look-ups need are on their way. What no cache has is collected and
//! made together, for the same reason.

use std::ops::Range;

use super::memory::{Absent, BATCH, Memory, NOWHERE, Waiting};
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

/// The second pass: appends the ids of all that waits from `begin` on.
///
/// What the cache has is copied; what it has not is left out at first, made together, and put in between.
fn flush(
    model: &impl Pieces,
    text: &[u8],
    begin: usize,
    memory: &mut Memory,
    out: &mut Output<'_>,
) {
    let waiting = std::mem::take(&mut memory.waiting);
    let pieces = Run { text, begin, pieces: &waiting };
    let from = out.ids.len();
    out.ids.resize(from + MOST * waiting.len(), 0);
    let copied = copy(memory, &waiting, &mut out.ids[from..]);
    out.ids.truncate(from + copied);
    if memory.gaps.is_empty() {
        tell(model, &pieces, 0..waiting.len(), from, memory, out);
    } else {
        fill_gaps(model, &pieces, from, memory, out);
    }
    memory.waiting = waiting;
    memory.waiting.clear();
}

/// Copies the ids of the pieces that the cache has, notes where those of each piece begin and which are left out, and
/// returns how many there are.
#[inline]
fn copy(memory: &mut Memory, waiting: &[Waiting], ids: &mut [u32]) -> usize {
    let sets = memory.short.sets();
    memory.gaps.clear();
    memory.positions.resize(waiting.len(), 0);
    let mut filled = 0;
    let places = memory.positions.iter_mut().zip(waiting);
    for (index, (position, Waiting { key, place, .. })) in places.enumerate() {
        *position = filled;
        let found = sets.get(*place, *key).filter(|found| found.count <= MOST);
        let room = ids.get_mut(filled..).and_then(<[u32]>::first_chunk_mut);
        if let (Some(found), Some(room)) = (found, room) {
            *room = found.all();
            filled += found.count;
        } else {
            memory.gaps.push(index);
        }
    }
    filled
}

/// Pieces that wait; each begins where the one before it ends.
struct Run<'a> {
    text: &'a [u8],
    /// Where the first one begins.
    begin: usize,
    pieces: &'a [Waiting],
}

impl Run<'_> {
    fn range(&self, index: usize) -> Range<usize> {
        let before = index.checked_sub(1).map(|before| self.pieces[before].end as usize);
        before.unwrap_or(self.begin)..self.pieces[index].end as usize
    }

    /// The first of the pieces from `index` on that ends behind `byte`.
    fn behind(&self, index: usize, byte: usize) -> usize {
        index + self.pieces[index..].partition_point(|piece| piece.end as usize <= byte)
    }
}

/// Makes the ids of what was left out, and puts them between those from `from` on.
#[inline(never)]
fn fill_gaps(
    model: &impl Pieces,
    pieces: &Run<'_>,
    from: usize,
    memory: &mut Memory,
    out: &mut Output<'_>,
) {
    let gaps = std::mem::take(&mut memory.gaps);
    for &index in &gaps {
        let (Waiting { key, place, end }, start) =
            (pieces.pieces[index], pieces.range(index).start);
        if place != NOWHERE && !memory.short.has(place, key) {
            model.expect(key);
            memory.absent.push(Absent { key, place, start: position(start), end });
        }
    }
    if !memory.absent.is_empty() {
        model.learn(pieces.text, memory);
        memory.absent.clear();
    }
    let mut copied = std::mem::take(&mut memory.copied);
    let first = memory.positions[gaps[0]];
    copied.clear();
    copied.extend_from_slice(&out.ids[from + first..]);
    out.ids.truncate(from + first);
    tell(model, pieces, 0..gaps[0], from, memory, out);
    let mut taken = 0;
    for (&gap, next) in gaps.iter().zip(gaps.iter().skip(1).chain([&pieces.pieces.len()])) {
        let (range, Waiting { key, place, .. }) = (pieces.range(gap), pieces.pieces[gap]);
        rest(model, &pieces.text[range.clone()], key, place, memory);
        let at = out.ids.len();
        out.ids.extend_from_slice(&memory.made);
        if range.end > out.watch.next() {
            model.watch(pieces.text, range.start, at, &memory.made, out.origin, out.watch);
        }
        let shift = out.ids.len().wrapping_sub(first + taken);
        let end = memory.positions.get(*next).map_or(copied.len(), |position| position - first);
        out.ids.extend_from_slice(&copied[taken..end]);
        tell(model, pieces, gap + 1..*next, shift, memory, out);
        taken = end;
    }
    (memory.gaps, memory.copied) = (gaps, copied);
}

/// Tells the watch where the ids of some pieces that were copied come from; they stand where they were noted to, and
/// `shift` further.
#[inline]
fn tell(
    model: &impl Pieces,
    pieces: &Run<'_>,
    mut which: Range<usize>,
    shift: usize,
    memory: &Memory,
    out: &mut Output<'_>,
) {
    loop {
        which.start = match out.watch.next() {
            usize::MAX => return,
            byte => pieces.behind(which.start, byte),
        };
        if which.start >= which.end {
            return;
        }
        let start = memory.positions[which.start].wrapping_add(shift);
        let after = memory.positions.get(which.start + 1);
        let end = after.map_or(out.ids.len(), |after| after.wrapping_add(shift));
        let (begin, ids) = (pieces.range(which.start).start, &out.ids[start..end]);
        model.watch(pieces.text, begin, start, ids, out.origin, out.watch);
        which.start += 1;
    }
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
