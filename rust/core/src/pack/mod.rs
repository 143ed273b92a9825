//! Lengths to a [`Plan`]: which pieces of documents share a row, and in which order.
//!
//! Each strategy has a file of its own; all of them break ties by the order of the input, so a plan depends
//! on nothing but the pieces and `max_length`.

mod best_fit;
mod bound;
mod heap;
mod lengths;
mod none;
mod open;
mod order;
mod overlong;
mod plan;
mod sequential;
mod spaces;

use std::num::NonZeroU32;

use crate::config::Strategy;
use crate::control::Control;
use crate::error::Result;

pub use bound::lower_bound;
pub use lengths::{PlannedLengths, plan_lengths};
pub use open::OpenPacks;
pub use overlong::{Cut, cut};
pub use plan::{Piece, Plan};

/// Pieces between two looks at the cancel flag: far below a millisecond of any strategy.
const TICK: usize = 4096;

/// Packs `pieces` into rows of at most `max_length` tokens.
///
/// Every piece is in exactly one row. No strategy needs the pieces in any order, and none looks at their
/// documents.
///
/// # Panics
///
/// If a piece is empty or longer than `max_length`, which [`cut`] is there to prevent, or if there are more
/// pieces than a `u32` counts.
pub fn plan(
    pieces: &[Piece],
    max_length: NonZeroU32,
    strategy: Strategy,
    control: &Control,
) -> Result<Plan> {
    let fits = |piece: &Piece| (1..=max_length.get()).contains(&piece.length);
    assert!(pieces.iter().all(fits), "a piece has at least one token and at most `max_length`");
    assert!(u32::try_from(pieces.len()).is_ok(), "pieces are counted by a u32");
    match strategy {
        Strategy::BestFit => best_fit::pack(pieces, max_length, control),
        Strategy::Heap => heap::pack(pieces, max_length, control),
        Strategy::Sequential => sequential::pack(pieces, max_length, control),
        Strategy::None => none::pack(pieces, max_length, control),
    }
}
