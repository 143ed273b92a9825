//! The strategies: pieces to rows. [`mix`] is the default of finite jobs. Streams pack by [`best_fit`]'s rule over a bounded number
//! of open rows, in [`online_packer`](super::online_packer).

pub(super) mod best_fit;
pub(super) mod concat;
pub(super) mod first_fit;
pub(super) mod heap;
pub(super) mod in_order;
pub(super) mod length_counts;
pub(super) mod mix;
pub(super) mod number_set;
pub(super) mod rows_by_room;
