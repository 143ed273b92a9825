//! Lengths to a [`Plan`]: which pieces of documents share a row, and in which order.
//!
//! Each strategy has a file of its own. Ties are broken by the order of the input and what is left to chance by
//! the seed, so a plan depends on nothing but the pieces and the options.

mod best_fit;
mod bits;
mod bound;
mod concat;
mod first_fit;
mod heap;
mod lengths;
mod mix;
mod none;
mod open;
mod order;
mod overlong;
mod plan;
mod random;
mod rows;
mod sequential;
mod spaces;
mod stock;

use concat::Laid;
use rows::Rows;

use crate::config::{PackOptions, Strategy};
use crate::control::Control;
use crate::error::Result;

pub use bound::lower_bound;
pub use lengths::{PlannedLengths, plan_lengths};
pub use open::OpenPacks;
pub use overlong::{Cut, Stretches, cut};
pub use plan::{Piece, Plan};

/// Pieces between two looks at the cancel flag: far below a millisecond of any strategy.
const TICK: usize = 4096;

/// A plan, and what it could not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The rows.
    pub plan: Plan,
    /// The pieces of the last row of `concat` where [`Tail::Drop`](crate::config::Tail::Drop) drops it.
    pub tail: Vec<Piece>,
}

/// Packs `pieces` into rows of at most `max_length` tokens and `max_documents_per_pack` pieces.
///
/// Every piece is in exactly one row; `concat` cuts them first, and may leave out a tail. Pieces are taken in
/// input order: the first pieces are the first in the input.
///
/// # Panics
///
/// If a piece is empty, or longer than `max_length` for any strategy but `concat`, which [`cut`] is there to
/// prevent, or if there are more pieces than a `u32` counts.
pub fn plan(pieces: Vec<Piece>, options: &PackOptions, control: &Control) -> Result<Planned> {
    let longest = match options.strategy {
        Strategy::Concat => u32::MAX,
        _ => options.max_length.get(),
    };
    let fits = |piece: &Piece| (1..=longest).contains(&piece.length);
    assert!(pieces.iter().all(fits), "a piece has at least one token and at most `max_length`");
    assert!(u32::try_from(pieces.len()).is_ok(), "pieces are counted by a u32");
    let (pieces, rows, tail) = match options.strategy {
        Strategy::Mix => whole(mix::pack(&pieces, options, control)?, pieces),
        Strategy::BestFit => whole(best_fit::pack(&pieces, options, control)?, pieces),
        Strategy::Heap => whole(heap::pack(&pieces, options, control)?, pieces),
        Strategy::Sequential => whole(sequential::pack(&pieces, options, control)?, pieces),
        Strategy::None => whole(none::pack(&pieces, control)?, pieces),
        Strategy::Concat => {
            let Laid { pieces, rows, tail } = concat::pack(&pieces, options, control)?;
            (pieces, rows, tail)
        }
    };
    control.tick()?;
    Ok(Planned { plan: rows.into_plan(&pieces, options), tail })
}

/// Rows of pieces that were not cut.
fn whole(rows: Rows, pieces: Vec<Piece>) -> (Vec<Piece>, Rows, Vec<Piece>) {
    (pieces, rows, Vec::new())
}
