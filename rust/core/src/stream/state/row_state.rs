//! [`RowState`]: the state between two rows of a table, as far as it differs from the state after the table.
//!
//! A table of rows that are dealt one by one carries the state after it, and a place for each row before its last. Only the lane
//! of a row changes with it, so a place holds the states of one lane or of few, as they were before the next row.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::report_parts::AddedLengths;
use super::{SourceSnapshot, StreamCounts, StreamState};
use crate::error::{Error, Result};

/// The metadata key of the places between the rows of a table, as JSON.
pub const PLACES_KEY: &str = "fastpack_places";

/// The state after a row, as far as it differs from the state after the next row.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RowState {
    /// The number of rows that all ranks together have delivered.
    pub(crate) rows: u64,
    /// The number of steps.
    pub(crate) step: u64,
    pub(crate) counts: StreamCounts,
    /// The lengths that the next row added.
    pub(crate) lengths: AddedLengths,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) saved: BTreeMap<String, SourceSnapshot>,
    /// The states of the lanes that were asked for the next row, by their numbers.
    pub(crate) lanes: BTreeMap<usize, Arc<str>>,
}

impl RowState {
    /// The place after so many rows and steps.
    pub(crate) fn new(
        rows: u64,
        step: u64,
        counts: StreamCounts,
        saved: BTreeMap<String, SourceSnapshot>,
    ) -> Self {
        let (lengths, lanes) = Default::default();
        Self { rows, step, counts, lengths, saved, lanes }
    }

    /// Puts a state back from the next row to this place.
    fn restore(self, state: &mut StreamState) {
        (state.rows, state.step) = (self.rows, self.step);
        (state.counts, state.saved) = (self.counts, self.saved);
        state.carried.take_out(&self.lengths);
        state.states.extend(self.lanes);
    }
}

/// The places of a table, from its first row on, as JSON.
pub(crate) fn places_text(places: &[RowState]) -> String {
    serde_json::to_string(places).expect("strings and numbers become JSON")
}

/// The state after the row `row` of a table, as JSON, from the state after the table and its places.
///
/// # Errors
///
/// [`Error::Option`] about `state` if it is invalid, or the table has no such row.
pub fn state_after_row(state: &str, places: &str, row: usize) -> Result<String> {
    let mut state = StreamState::from_json(state)?;
    let none = || Error::option("state", format!("is not of a table with a row {row}"));
    let mut places: Vec<RowState> = serde_json::from_str(places).map_err(|_| none())?;
    if row > places.len() {
        return Err(none());
    }
    for place in places.drain(row..).rev() {
        place.restore(&mut state);
    }
    Ok(state.to_json())
}
