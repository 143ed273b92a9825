//! The strategies: pieces to rows. The default is best-fit decreasing, in [`best_fit`].

pub(super) mod best_fit;
pub(super) mod bits;
pub(super) mod first_fit;
pub(super) mod heap;
pub(super) mod in_order;
pub(super) mod length_counts;
pub(super) mod mix;
pub(super) mod spaces;
