//! The state of a stream: begin at [`stream_state`]. [`merge_states()`] joins the states of ranks.

pub(super) mod file_list;
pub(super) mod file_numbers;
pub(super) mod lane_state;
mod merge_states;
mod refusals;
pub(super) mod report_parts;
pub(super) mod row_state;
pub(super) mod run_identity;
mod stream_state;

pub use merge_states::merge_states;
pub use stream_state::{STATE_KEY, StreamState};
pub(super) use stream_state::{SourceSnapshot, StreamCounts, encode};
