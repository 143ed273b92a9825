//! [`OpenPacks`]: packs pieces as they arrive, without waiting for all lengths.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use super::pieces::Piece;
use super::plan::Plan;
use crate::config::{PackOptions, RowOrder};

/// Open rows.
///
/// Finished rows go to a [`Plan`] of the caller's, in the order in which they were closed. The rows depend on
/// nothing but the pieces pushed and the calls made.
#[derive(Clone, Debug)]
pub struct OpenPacks {
    options: PackOptions,
    most: NonZeroUsize,
    /// The most documents of a row.
    most_documents: u32,
    /// The open rows, ordered by the room left, then by age. The first with enough room is the best; ties are
    /// first in, first out.
    packs: BTreeMap<(u32, u64), Pack>,
    clock: u64,
    /// No open row was opened before this time.
    oldest: u64,
}

#[derive(Clone, Debug)]
struct Pack {
    opened: u64,
    pieces: Vec<Piece>,
}

impl OpenPacks {
    /// One open row, in input order: makes the rows of [`plan`](fn@super::plan) for `sequential`, `concat` and `none`.
    ///
    /// `None` for strategies, and orders of rows, that need all lengths first.
    pub fn in_order(options: &PackOptions) -> Option<Self> {
        let in_order = options.order() == RowOrder::Input && !options.strategy.needs_all_lengths();
        (in_order && !options.shuffle).then(|| Self::best_fit(options, NonZeroUsize::MIN))
    }

    /// The open rows of a stream: at most `most` for a strategy that fills several, else one. `None` for strategies that
    /// need all lengths first.
    pub fn in_stream(options: &PackOptions, most: NonZeroUsize) -> Option<Self> {
        if options.strategy.fills_open_rows() {
            return Some(Self::best_fit(options, most));
        }
        Self::in_order(options)
    }

    /// At most `most` open rows. A piece goes into the one with the least sufficient room.
    ///
    /// When it fits into none and `most` are open, the fullest is closed.
    pub fn best_fit(options: &PackOptions, most: NonZeroUsize) -> Self {
        let most_documents = options.most_documents();
        let options = options.clone();
        Self { options, most, most_documents, packs: BTreeMap::new(), clock: 0, oldest: 0 }
    }

    /// True if later rows may be closed before an earlier one.
    pub fn overtakes(&self) -> bool {
        self.most > NonZeroUsize::MIN
    }

    /// The most rows that are open at once.
    pub(crate) fn most(&self) -> usize {
        self.most.get()
    }

    /// Adds a piece, and moves the rows that it closes to `done`: first the row that is closed to make room
    /// for a new one, then the row that it fills.
    ///
    /// `concat` cuts the piece where a row ends.
    ///
    /// # Panics
    ///
    /// If the piece is empty, or longer than `max_length` for any strategy but `concat`.
    pub fn push(&mut self, piece: Piece, done: &mut Plan) {
        let max = self.options.row_limit().get();
        if self.options.strategy.cuts_at_row_end() {
            let mut left = piece;
            while left.length > 0 {
                let space = self.packs.keys().next().map_or(max, |&(space, _)| space);
                let length = left.length.min(space);
                self.push_whole(Piece { length, ..left }, done);
                left.start += length;
                left.length -= length;
            }
        } else {
            let fits = (1..=max).contains(&piece.share(&self.options));
            assert!(fits, "a piece has at least one token and at most `max_length`");
            self.push_whole(piece, done);
        }
    }

    /// Adds a piece that a row has room for.
    fn push_whole(&mut self, piece: Piece, done: &mut Plan) {
        let (max, most_documents) = (self.options.row_limit().get(), self.most_documents);
        let room = piece.share(&self.options);
        let best = self.packs.range((room, 0)..).next().map(|(&key, _)| key);
        let (space, mut pack) = if let Some(key) = best {
            (key.0, self.packs.remove(&key).expect("the key that was just found"))
        } else {
            // A full row is closed at once, so it takes no place among several open rows. With one open row, that
            // row is closed first, or the full one would overtake it.
            let full = room == max || most_documents == 1;
            let needs_place = !full || self.most == NonZeroUsize::MIN;
            if needs_place && self.packs.len() == self.most.get() {
                let (_, fullest) = self.packs.pop_first().expect("at least one row is open");
                done.push(&fullest.pieces);
            }
            (max, Pack { opened: self.clock, pieces: Vec::new() })
        };
        pack.pieces.push(piece);
        if space == room || pack.pieces.len() >= most_documents as usize {
            done.push(&pack.pieces);
        } else {
            self.packs.insert((space - room, self.clock), pack);
        }
        self.clock += 1;
    }

    /// Closes the row that was opened first, if any. It holds the oldest document.
    ///
    /// A long piece may wait for a fitting one for ever. A caller that frees old documents closes their row.
    pub fn close_oldest(&mut self, done: &mut Plan) {
        let oldest = self.packs.iter().min_by_key(|(_, pack)| pack.opened).map(|(&key, _)| key);
        if let Some(pack) = oldest.and_then(|key| self.packs.remove(&key)) {
            done.push(&pack.pieces);
        }
    }

    /// Closes the rows that were opened more than `age` pieces ago.
    pub fn close_aged(&mut self, age: u64, done: &mut Plan) {
        while self.clock - self.oldest > age {
            let oldest = self.packs.values().map(|pack| pack.opened).min();
            self.oldest = oldest.unwrap_or(self.clock);
            if self.clock - self.oldest > age {
                self.close_oldest(done);
            }
        }
    }

    /// The open rows, each with the number of pieces that were added since it was opened. The last row is the
    /// one that was added to last.
    pub(crate) fn rows(&self) -> Vec<(u64, &[Piece])> {
        let mut rows: Vec<_> = self.packs.iter().map(|(&(_, last), pack)| (last, pack)).collect();
        rows.sort_unstable_by_key(|(last, _)| *last);
        rows.into_iter().map(|(_, pack)| (self.clock - pack.opened, &*pack.pieces)).collect()
    }

    /// Opens rows as [`rows`](Self::rows) returned them.
    ///
    /// # Panics
    ///
    /// If a row exceeds its capacity, or is empty.
    pub(crate) fn reopen(&mut self, rows: Vec<(u64, Vec<Piece>)>) {
        let oldest = rows.iter().map(|(age, _)| *age).max().unwrap_or(0);
        let count = rows.len() as u64;
        // Times are only compared with each other, and with the age of a row.
        self.clock = self.clock.max(oldest + count + 1);
        self.oldest = 0;
        for (number, (age, pieces)) in (0..).zip(rows) {
            let room: u32 = pieces.iter().map(|piece| piece.share(&self.options)).sum();
            let space = self.options.row_limit().get().checked_sub(room).filter(|_| room > 0);
            let space = space.expect("an open row has some pieces and room for them");
            let pack = Pack { opened: self.clock - age, pieces };
            self.packs.insert((space, self.clock - count + number), pack);
        }
    }

    /// Closes all rows, in the order in which they were opened. Returns the pieces of the tail if it is
    /// dropped.
    ///
    /// Several open rows are packed again, longest piece first, because no later piece can fill them.
    pub fn flush(&mut self, done: &mut Plan) -> Vec<Piece> {
        self.flush_by(|_| 0, done)
    }

    /// [`flush`](Self::flush), where of pieces of one length those with the lowest `rank` come first, whatever the numbers of
    /// their documents.
    pub(crate) fn flush_by(
        &mut self,
        rank: impl Fn(&Piece) -> usize,
        done: &mut Plan,
    ) -> Vec<Piece> {
        if self.overtakes() {
            let mut pieces: Vec<Piece> = self.pieces().copied().collect();
            pieces.sort_unstable_by_key(|it| (Reverse(it.length), rank(it), it.document, it.start));
            let mut again = Self::best_fit(&self.options, NonZeroUsize::MAX);
            for piece in pieces {
                again.push(piece, done);
            }
            self.packs = again.packs;
        }
        let mut packs: Vec<Pack> = std::mem::take(&mut self.packs).into_values().collect();
        if self.options.drop_last {
            return packs.into_iter().flat_map(|pack| pack.pieces).collect();
        }
        packs.sort_by_key(|pack| pack.opened);
        for pack in packs {
            done.push(&pack.pieces);
        }
        Vec::new()
    }

    /// The number of open rows.
    pub fn len(&self) -> usize {
        self.packs.len()
    }

    /// True if no row is open.
    pub fn is_empty(&self) -> bool {
        self.packs.is_empty()
    }

    /// The tokens in all open rows.
    pub fn tokens(&self) -> u64 {
        self.pieces().map(|piece| u64::from(piece.length)).sum()
    }

    /// The least document number in an open row. Documents before it may be freed.
    pub fn oldest(&self) -> Option<u32> {
        self.pieces().map(|piece| piece.document).min()
    }

    /// Renumbers the documents of all open rows: `document` becomes 0.
    ///
    /// For a stream of more than 2³² documents, between two plans; see [`Plan::starting_at`].
    ///
    /// # Panics
    ///
    /// If `document` is more than [`OpenPacks::oldest`].
    pub fn rebase(&mut self, document: u32) {
        for piece in self.packs.values_mut().flat_map(|pack| &mut pack.pieces) {
            piece.document =
                piece.document.checked_sub(document).expect("at most the oldest document");
        }
    }

    /// The pieces in all open rows.
    pub fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.packs.values().flat_map(|pack| &pack.pieces)
    }
}
