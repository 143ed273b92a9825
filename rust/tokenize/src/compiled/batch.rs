//! The loop that all compiled models share: pieces are cut and hashed first, and looked up after.
//!
//! Between the passes, the cache lines that the look-ups need are on their way. What no cache has is collected and
//! made together, for the same reason.

use std::ops::Range;

use super::gaps;
use super::memory::{BATCH, Gap, Memory, NOWHERE, Waiting};
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

    /// Says that [`Self::learn`] may be asked for a piece.
    fn expect(&self, _: Key) {}

    /// Puts the ids of all absent pieces into the gaps and into the cache, if that is faster than one at a time.
    fn learn(&self, _: &[u8], _: &mut [Gap], _: &mut Memory) {}

    /// Appends the ids of a piece, or of a part of one, that no cache has.
    fn miss(&self, piece: &[u8], part: bool, memory: &mut Memory, ids: &mut Vec<u32>);

    /// Tells the watch where the tokens of the piece `text[begin..]` come from; the first stands at `position`.
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
    encode_from(model, text, start, Cursor::new(start), memory, out);
}

/// As [`encode`], of a model that counts pieces with its cursor.
pub(super) fn encode_listed(
    model: &impl Pieces,
    text: &[u8],
    start: usize,
    memory: &mut Memory,
    out: &mut Output<'_>,
) {
    encode_from(model, text, start, Cursor::new(0), memory, out);
}

/// Appends the ids of the pieces that the model cuts with `cursor`; the first begins at `start`.
#[inline]
fn encode_from(
    model: &impl Pieces,
    text: &[u8],
    start: usize,
    mut cursor: Cursor,
    memory: &mut Memory,
    out: &mut Output<'_>,
) {
    let (mut begin, mut at) = (start, start);
    let mut ends = std::mem::take(&mut memory.ends);
    loop {
        memory.short.grow();
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

/// Lets the first of the pieces wait that are short, one behind the other, and returns how many they are.
#[inline]
fn wait(text: &[u8], mut begin: usize, ends: &[u32], memory: &mut Memory) -> usize {
    let Memory { short, waiting, count: waits, .. } = memory;
    let mut count = 0;
    for (end, place) in ends.iter().zip(&mut waiting[*waits..]) {
        let length = *end as usize - begin;
        if length > LONGEST {
            break;
        }
        *place = short_piece(Key::new(text, begin, length), *end, short);
        begin = *end as usize;
        count += 1;
    }
    *waits += count;
    count
}

/// A short piece, whose place in the cache is brought near.
#[inline]
fn short_piece(key: Key, end: u32, cache: &PieceCache) -> Waiting {
    let place = cache.place(key);
    cache.prefetch(place);
    Waiting { key, place, end }
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
        if memory.is_stopped() {
            // Nobody reads what comes of it, but pieces begin where those before them end.
            memory.count = 0;
            return piece.end;
        }
        let end = at + model.cut(&text[at..piece.end], at == piece.start);
        let part = model.tells_parts() && (at..end) != piece;
        let waiting = if end - at <= LONGEST {
            let key = Key::new(text, at, end - at);
            short_piece(if part { key.part() } else { key }, position(end), &memory.short)
        } else {
            let key = if part { Key::default().part() } else { Key::default() };
            Waiting { key, place: NOWHERE, end: position(end) }
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

/// A position as it is stored; texts of 4 GiB and more never come here.
#[inline]
pub(super) fn position(at: usize) -> u32 {
    u32::try_from(at).expect("a text is shorter than 4 GiB")
}

/// Pieces that wait; each begins where the one before it ends.
pub(super) struct Run<'a> {
    pub(super) text: &'a [u8],
    /// Where the first one begins.
    begin: usize,
    pub(super) pieces: &'a [Waiting],
}

impl Run<'_> {
    /// Where a piece stands.
    pub(super) fn range(&self, index: usize) -> Range<usize> {
        let before = index.checked_sub(1).map(|before| self.pieces[before].end as usize);
        before.unwrap_or(self.begin)..self.pieces[index].end as usize
    }

    /// The first of the pieces from `index` on that ends behind `byte`.
    fn behind(&self, index: usize, byte: usize) -> usize {
        index + self.pieces[index..].partition_point(|piece| piece.end as usize <= byte)
    }
}

/// The second pass: appends the ids of all that waits from `begin` on.
fn flush(
    model: &impl Pieces,
    text: &[u8],
    begin: usize,
    memory: &mut Memory,
    out: &mut Output<'_>,
) {
    if memory.count == 0 {
        return;
    }
    let waiting = std::mem::take(&mut memory.waiting);
    let run = Run { text, begin, pieces: &waiting[..memory.count] };
    memory.count = 0;
    let copied = answer(run.pieces, memory);
    if !memory.gaps.is_empty() {
        gaps::fill(model, &run, memory);
    }
    let from = out.ids.len();
    gaps::assemble(copied, memory, out.ids);
    if run.range(run.pieces.len() - 1).end > out.watch.next() {
        tell(model, &run, from, copied, memory, out);
    }
    memory.waiting = waiting;
}

/// Copies the ids of the pieces that the cache has, notes where those of each begin and which pieces it has not, and
/// returns how many ids there are.
#[inline]
fn answer(pieces: &[Waiting], memory: &mut Memory) -> usize {
    let sets = memory.short.sets();
    let Memory { copied, positions, missing, gaps, .. } = memory;
    let (positions, missing) = (&mut positions[..pieces.len()], &mut missing[..pieces.len()]);
    let (mut filled, mut count) = (0, 0);
    for (index, (piece, position)) in pieces.iter().zip(positions).enumerate() {
        *position = filled;
        let found = sets.get(piece.place, piece.key).unwrap_or_default();
        // What is too much is written over: how many ids count, and which pieces are there, cannot be predicted.
        // There always is room, but an index that is looked at by panicking costs 2 % of a warm pass.
        debug_assert!(filled + MOST <= copied.len(), "room for the ids of every piece");
        if let Some(room) = copied.get_mut(filled..filled + MOST) {
            room.copy_from_slice(&found.all());
        }
        filled += found.count();
        missing[count] = index;
        count += usize::from(!found.is_whole());
    }
    gaps.clear();
    gaps.extend(missing[..count].iter().map(|index| Gap { index: *index, ..Gap::default() }));
    filled
}

/// Tells the watch where the ids of the pieces come from that it waits for; those of the first stand at `from`.
#[inline(never)]
fn tell(
    model: &impl Pieces,
    run: &Run<'_>,
    mut from: usize,
    copied: usize,
    memory: &Memory,
    out: &mut Output<'_>,
) {
    let Memory { positions, gaps, .. } = memory;
    let mut gaps = gaps.iter().peekable();
    let mut index = 0;
    loop {
        index = match out.watch.next() {
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
        model.watch(&run.text[..end], begin, start, ids, out.origin, out.watch);
        index += 1;
    }
}
