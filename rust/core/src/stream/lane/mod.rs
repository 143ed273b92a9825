//! A lane packs its own documents, one row after the other: begin at [`lane_rows`].
//!
//! The rows of a lane, and its state after each of them, depend on the inputs, the options, the seed and the
//! number of the lane. They do not depend on the time, on other lanes, or on the progress of threads.

pub(super) mod block_queues;
pub(super) mod caller_blocks;
mod empty_passes;
pub(super) mod lane_blocks;
pub(super) mod lane_extents;
pub(super) mod lane_rows;
pub(super) mod packed_block;
mod picture_hashes;
pub(super) mod record_order;
mod resuming;
pub(super) mod source_mix;
mod stored_block;

pub(super) use lane_rows::{Lane, LaneContext};
