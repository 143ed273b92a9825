//! Lengths to a [`Plan`]: which pieces of documents share a row, and in which order.
//!
//! Each strategy has a file of its own. Input order breaks ties and the seed decides random choices, so a
//! plan depends on nothing but the pieces and the options.

mod balance;
mod best_fit;
mod bits;
mod bound;
mod first_fit;
mod heap;
mod in_order;
mod length_counts;
mod lengths;
mod mix;
mod open;
mod order;
mod overlong;
mod pieces;
mod plan;
mod planner;
mod rows;
mod spaces;
pub mod step;
mod ticks;

pub use bound::lower_bound;
pub use lengths::{DocumentLengths, PlannedLengths};
pub use open::OpenPacks;
pub use overlong::{OverlongCut, Stretches, cut};
pub use pieces::{MadeSizes, Piece, Pieces};
pub use plan::{Plan, PlanColumns};
pub use planner::{PlannedRows, UnpackedPiece, plan};
pub(crate) use ticks::TICK;
