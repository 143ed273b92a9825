//! Lengths to a [`Plan`]: which pieces of documents share a row, and in which order.
//!
//! Each strategy has a file of its own. Input order breaks ties and the seed decides random choices, so a
//! plan depends on nothing but the pieces and the options.

mod balanced_order;
mod bound;
mod cancel_checks;
mod cancellable_sort;
mod cut_overlong;
mod lengths;
mod online_packer;
mod pieces;
mod plan;
mod planner;
mod row_members;
pub mod step;
mod strategies;

pub use bound::{lower_bound, lower_bound_of_pictures};
pub(crate) use cancel_checks::TICK;
pub use cut_overlong::{OverlongCut, Stretches, cut};
pub use lengths::{DocumentLengths, PlannedLengths};
pub use online_packer::OpenPacks;
pub use pieces::{Piece, PieceSizes, Pieces};
pub use plan::{Plan, PlanColumns};
pub use planner::{PlannedRows, UnpackedPiece, plan};
