//! [`OpenPacks`]: packing on the fly, for a stream that cannot see all lengths at once.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use super::{Piece, Plan};
use crate::config::PackOptions;

/// Rows that are still being filled.
///
/// Finished rows go to a [`Plan`] of the caller's, in the order in which they were closed. The rows depend
/// on nothing but the pieces pushed and the calls made.
#[derive(Clone, Debug)]
pub struct OpenPacks {
    options: PackOptions,
    most: NonZeroUsize,
    /// By the room left, then by since when: the first that suffices is the best, ties first in, first out.
    packs: BTreeMap<(u32, u64), Pack>,
    clock: u64,
}

#[derive(Clone, Debug)]
struct Pack {
    opened: u64,
    pieces: Vec<Piece>,
}

impl OpenPacks {
    /// One open row, in input order: the very rows of the sequential strategy.
    pub fn sequential(options: &PackOptions) -> Self {
        Self::best_fit(options, NonZeroUsize::MIN)
    }

    /// At most `most` open rows; a piece goes into the one that it fills best.
    ///
    /// When it fits into none and `most` are open, the fullest is closed. With one open row, this is
    /// [`OpenPacks::sequential`].
    pub fn best_fit(options: &PackOptions, most: NonZeroUsize) -> Self {
        Self { options: options.clone(), most, packs: BTreeMap::new(), clock: 0 }
    }

    /// Adds a piece, and moves to `done` what this closes: the row made way, then the row made full.
    ///
    /// # Panics
    ///
    /// If the piece is empty or longer than `max_length`.
    pub fn push(&mut self, piece: Piece, done: &mut Plan) {
        let (max, most_documents) = (self.options.max_length.get(), self.options.most_documents());
        let fits = (1..=max).contains(&piece.length);
        assert!(fits, "a piece has at least one token and at most `max_length`");

        let room = self.options.room(piece.length);
        let best = self.packs.range((room, 0)..).next().map(|(&key, _)| key);
        let (space, mut pack) = if let Some(key) = best {
            (key.0, self.packs.remove(&key).expect("the key that was just found"))
        } else {
            // A full row needs no place among many; the only one it would overtake.
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

    /// Closes the row that was opened first, if any: the one that keeps the oldest document.
    ///
    /// A long piece can wait for its complement for ever. A caller who must let go of old documents closes
    /// their row.
    pub fn close_oldest(&mut self, done: &mut Plan) {
        let oldest = self.packs.iter().min_by_key(|(_, pack)| pack.opened).map(|(&key, _)| key);
        if let Some(pack) = oldest.and_then(|key| self.packs.remove(&key)) {
            done.push(&pack.pieces);
        }
    }

    /// Closes all rows, in the order in which they were opened.
    pub fn flush(&mut self, done: &mut Plan) {
        let mut packs: Vec<Pack> = std::mem::take(&mut self.packs).into_values().collect();
        packs.sort_by_key(|pack| pack.opened);
        for pack in packs {
            done.push(&pack.pieces);
        }
    }

    /// How many rows are open.
    pub fn len(&self) -> usize {
        self.packs.len()
    }

    /// Whether no row is open.
    pub fn is_empty(&self) -> bool {
        self.packs.is_empty()
    }

    /// The tokens in all open rows.
    pub fn tokens(&self) -> u64 {
        self.pieces().map(|piece| u64::from(piece.length)).sum()
    }

    /// The least document number in an open row: what lies before it may be released.
    pub fn oldest(&self) -> Option<u32> {
        self.pieces().map(|piece| piece.document).min()
    }

    /// Counts the documents of all open rows from `document` on: what was `document` becomes 0.
    ///
    /// For a stream that outlives 2³² documents, between two plans; see [`Plan::starting_at`].
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
