//! Packs while the input is read: tables of rows one after the other, resumable at any table.
//!
//! A run is made of **lanes**, 64 or more. Each lane reads its own part of the input, in an order that the
//! seed decides, and packs it alone. Row `g` of the run is row `g / lanes` of lane `g % lanes`. So the rows
//! of a run are a function of the inputs, the options and the seed. Ranks, threads and prefetching only
//! decide who makes them, and when.
//!
//! * [`run_stream`] is where a run begins, [`run_lanes`] sets up the lanes of a rank, [`document_makers`] are its threads.
//! * [`lane`] packs the documents of one lane: which extents it reads in which order, its blocks, its rows.
//! * [`delivery`] makes tables of the rows of the lanes, up to the step at which all ranks end.
//! * [`record_selection`] and [`split_side`] say which records are read.
//! * [`counts`] keeps the number of rows of a finite run, so that its ranks [end together](end_of_run).
//! * [`state`] is the state of a run after a table: the places of its lanes, and the identity of its inputs and options.
//!
//! The thread that delivers takes rows from the lanes in turn and makes tables of them. Each table carries
//! the state after it, so data that was read ahead is never part of a state. Loading a state makes the open
//! rows again: the blocks of their documents are read, and only these documents are tokenized.

mod counts;
mod delivery;
mod document_makers;
mod end_of_run;
mod lane;
mod ranks_without_rows;
mod record_selection;
mod run_context;
mod run_lanes;
mod run_stream;
mod select_values;
mod split_side;
mod state;
mod step_rows;
mod stream_options;

pub use counts::RowCounts;
pub use lane::caller_blocks::CallerSources;
pub use record_selection::{RecordNumbers, RecordSelection};
pub use run_context::AllReduceMax;
pub use run_stream::{StreamInputs, count, stream};
pub use select_values::{Scalar, SelectNumber, WantedValues};
pub use state::row_state::{PLACES_KEY, state_after_row};
pub use state::{STATE_KEY, StreamState, merge_states};
pub use stream_options::{
    EndAgreement, MOST_LANES, MixUnit, OnEnd, OnExhausted, RankRows, RowAssignment, StreamOptions,
};
