//! From documents to rows, and into a sink as soon as the strategy allows.

pub(crate) mod cutter;
pub(in crate::pipeline) mod leftover_documents;
pub(crate) mod planned_packing;
pub(crate) mod rolling;
pub(crate) mod row_packer;
pub(in crate::pipeline) mod run_counts;
pub(in crate::pipeline) mod shares;
pub(crate) mod sink_packer;
pub(crate) mod split;
pub(crate) mod validation_draw;
