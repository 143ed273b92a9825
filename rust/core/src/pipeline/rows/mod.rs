//! From documents to rows, and into a sink as soon as the strategy allows.

pub(crate) mod cutter;
pub(crate) mod draw;
pub(crate) mod packer;
pub(crate) mod packing;
pub(crate) mod rolling;
pub(crate) mod row_packer;
pub(in crate::pipeline) mod run_counts;
pub(in crate::pipeline) mod shared;
pub(in crate::pipeline) mod shares;
pub(crate) mod split;
