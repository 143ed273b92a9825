//! [`StreamState`]: the position of a run after a table, and the identity of the run, as JSON.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::lane_state::LaneState;
use super::report_parts::ReportParts;
use crate::config::Options;
use crate::config::identity::Identity;
use crate::error::{Error, Result};
use crate::pipeline::PackedCounts;
use crate::report::ledger::{Count, Notes, PictureCount};
use crate::stream::stream_options::{RankRows, StreamOptions};
use crate::util::sealed_state_dict::{self, WrittenOnce, canonical};
use crate::util::wording::Message;

/// The metadata key of the state after a table of a stream, as JSON.
pub const STATE_KEY: &str = "fastpack_state";

/// The version of the order and of the states. Other versions cannot be resumed.
const VERSION: u64 = 17;

/// The kind of object that the states belong to.
const KIND: &str = "stream";

/// The position of a run after a table: for all ranks, or for one of them.
#[derive(Clone, Debug)]
pub struct StreamState {
    /// The number of rows that all ranks together have delivered.
    pub rows: u64,
    /// The number of tables that each rank has delivered.
    pub step: u64,
    /// The number of lanes of the run.
    pub lanes: usize,
    /// The number of rows in a table.
    pub batch_size: usize,
    /// The number of ranks.
    pub world_size: usize,
    /// The rank whose state it is; `None` for that of all.
    pub(in crate::stream) rank: Option<usize>,
    /// The identity of the run; before the first table that of its options, if they are known.
    pub(in crate::stream) identity: Option<Arc<WrittenOnce<Identity>>>,
    pub(in crate::stream) counts: StreamCounts,
    pub(in crate::stream) carried: ReportParts,
    /// The states of lanes, by their numbers.
    pub(in crate::stream) states: BTreeMap<usize, Arc<str>>,
    /// Places in the sources that tell theirs, by the names of the sources.
    pub(in crate::stream) saved: BTreeMap<String, SourceSnapshot>,
}

/// The place of a source before a round, as the source tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::stream) struct SourceSnapshot {
    pub(in crate::stream) epoch: u64,
    pub(in crate::stream) round: u64,
    pub(in crate::stream) place: String,
}

/// The counts up to a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::stream) struct StreamCounts {
    read: Count,
    kept: Count,
    truncated: Count,
    dropped: BTreeMap<crate::report::ledger::Reason, Count>,
    rows: u64,
    /// Rows of padding.
    #[serde(default, skip_serializing_if = "is_zero")]
    padded: u64,
    trained_tokens: u64,
    /// The tokens of the rows, without padding, and those that straddle the boundary of a trained span.
    filled: u64,
    straddling: u64,
    /// The pictures of the documents.
    #[serde(default, skip_serializing_if = "PictureCount::is_empty")]
    pictures: PictureCount,
    /// The pictures of the rows, if rows have limits of pictures.
    #[serde(default, skip_serializing_if = "PictureCount::is_empty")]
    packed_pictures: PictureCount,
    /// The notes on records.
    #[serde(default, skip_serializing_if = "Notes::is_empty")]
    notes: Notes,
    /// The packed documents and tokens of each source with a weight.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    shares: BTreeMap<String, Count>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks for it")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl StreamCounts {
    pub(in crate::stream) fn of(
        packed_counts: &PackedCounts,
        shares: BTreeMap<String, Count>,
        padded: u64,
    ) -> Self {
        let ledger = &packed_counts.ledger;
        Self {
            read: ledger.read,
            kept: ledger.kept,
            truncated: ledger.truncated,
            dropped: ledger.dropped.clone(),
            rows: packed_counts.rows,
            padded,
            trained_tokens: packed_counts.trained_tokens,
            filled: packed_counts.filled,
            straddling: ledger.straddling,
            pictures: ledger.pictures,
            packed_pictures: packed_counts.packed_pictures,
            notes: ledger.notes.clone(),
            shares,
        }
    }

    /// The rows of padding.
    pub(in crate::stream) fn padded(&self) -> u64 {
        self.padded
    }

    /// The packed documents and tokens of a source.
    pub(in crate::stream) fn share(&self, name: &str) -> Count {
        self.shares.get(name).copied().unwrap_or_default()
    }

    /// Restores the counts, on one rank only, so that the ranks together count everything once.
    pub(in crate::stream) fn restore_to(&self, packed_counts: &mut PackedCounts) {
        let Self { read, kept, truncated, dropped, notes, .. } = self.clone();
        let Self { rows, trained_tokens, filled, straddling, pictures, packed_pictures, .. } =
            *self;
        let ledger = &mut packed_counts.ledger;
        ledger.notes = notes;
        (ledger.read, ledger.kept, ledger.truncated, ledger.dropped) =
            (read, kept, truncated, dropped);
        (ledger.straddling, ledger.pictures) = (straddling, pictures);
        (packed_counts.rows, packed_counts.trained_tokens, packed_counts.filled) =
            (rows, trained_tokens, filled);
        packed_counts.packed_pictures = packed_pictures;
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.read.merge(other.read);
        self.kept.merge(other.kept);
        self.truncated.merge(other.truncated);
        for (reason, count) in &other.dropped {
            self.dropped.entry(*reason).or_default().merge(*count);
        }
        for (name, count) in &other.shares {
            self.shares.entry(name.clone()).or_default().merge(*count);
        }
        self.notes.merge(other.notes.clone());
        self.rows += other.rows;
        self.padded += other.padded;
        self.trained_tokens += other.trained_tokens;
        self.filled += other.filled;
        self.straddling += other.straddling;
        self.pictures.merge(other.pictures);
        self.packed_pictures.merge(other.packed_pictures);
    }
}

impl StreamState {
    /// The state of a run before its first table, with these options; of any run without them.
    pub fn beginning(options: Option<(&Options, &StreamOptions)>) -> Self {
        let identity =
            options.map(|(options, stream)| super::run_identity::of_options(options, stream));
        let stream = options.map(|(_, stream)| stream);
        Self {
            rows: 0,
            step: 0,
            lanes: 0,
            batch_size: stream.map_or(1, |stream| stream.batch_rows.get()),
            world_size: stream.map_or(1, |stream| stream.world_size.get()),
            rank: None,
            identity: identity.map(WrittenOnce::new).map(Arc::new),
            counts: StreamCounts::default(),
            carried: ReportParts::default(),
            states: BTreeMap::new(),
            saved: BTreeMap::new(),
        }
    }

    /// True if this is the state before the first table. The next run decides its lanes.
    pub fn is_beginning(&self) -> bool {
        self.lanes == 0
    }

    /// The state of a lane.
    pub(in crate::stream) fn lane(&self, lane: usize) -> Result<LaneState> {
        let text = self.states.get(&lane).ok_or_else(|| self.missing(&[lane]))?;
        let state = decode(text).and_then(|bytes| LaneState::from_bytes(&bytes));
        state.ok_or_else(|| refused(format!("lane {lane} cannot be read")))
    }

    /// True if the rank of some lanes continues the counts. Those of all ranks go to the first rank; those of one rank
    /// to that rank, or among others to the one that has its first lane.
    pub(in crate::stream) fn has_counts_of(&self, numbers: &[usize], share: RankRows) -> bool {
        match self.rank {
            None => share.rank == 0,
            Some(rank) if share.world_size == self.world_size => share.rank == rank,
            Some(_) => self.states.keys().next().is_some_and(|first| numbers.contains(first)),
        }
    }

    /// The state as sealed JSON.
    pub fn to_json(&self) -> String {
        let run = self.identity.as_ref().map_or("null", |identity| identity.text());
        let mut fields: Vec<(&str, Cow<'_, str>)> = vec![
            ("version", canonical(&VERSION).into()),
            ("rows", canonical(&self.rows).into()),
            ("step", canonical(&self.step).into()),
            ("lanes", canonical(&self.lanes).into()),
            ("batch_size", canonical(&self.batch_size).into()),
            ("world_size", canonical(&self.world_size).into()),
            ("run", run.into()),
            ("counts", canonical(&self.counts).into()),
            ("carried", canonical(&self.carried).into()),
            ("lane", self.lanes_text().into()),
        ];
        if let Some(rank) = self.rank {
            fields.push(("rank", canonical(&rank).into()));
        }
        if !self.saved.is_empty() {
            fields.push(("saved", canonical(&self.saved).into()));
        }
        sealed_state_dict::seal(KIND, fields)
    }

    /// The states of the lanes as canonical text. They are most of a state, and base 64 needs no escapes.
    fn lanes_text(&self) -> String {
        let mut lanes: Vec<(String, &str)> =
            self.states.iter().map(|(lane, state)| (lane.to_string(), &**state)).collect();
        lanes.sort_unstable();
        let bytes: usize = lanes.iter().map(|(lane, state)| lane.len() + state.len() + 6).sum();
        let mut text = String::with_capacity(bytes + 2);
        for (lane, state) in &lanes {
            let begin = if text.is_empty() { "{\"" } else { ",\"" };
            text.extend([begin, lane, "\":\"", state, "\""]);
        }
        text.push_str(if lanes.is_empty() { "{}" } else { "}" });
        text
    }

    /// Reads a state.
    ///
    /// # Errors
    ///
    /// [`Error::Option`] about `state` if it is none of a stream, or was changed.
    pub fn from_json(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct Written {
            rows: u64,
            step: u64,
            lanes: usize,
            batch_size: usize,
            world_size: usize,
            rank: Option<usize>,
            run: Option<Identity>,
            counts: StreamCounts,
            carried: ReportParts,
            lane: BTreeMap<String, String>,
            #[serde(default)]
            saved: BTreeMap<String, SourceSnapshot>,
        }
        let none = |why: String| refused(format!("is none of a stream: {why}"));
        let fields = Value::Object(sealed_state_dict::open(KIND, text, "state")?);
        let version = fields.get("version").and_then(Value::as_u64).unwrap_or_default();
        if version != VERSION {
            return Err(refused(format!(
                "has the version {version}, and this fastpack reads {VERSION}"
            )));
        }
        let written: Written =
            serde_json::from_value(fields).map_err(|error| none(error.to_string()))?;
        let mut states = BTreeMap::new();
        for (lane, text) in written.lane {
            let number = lane.parse().ok().filter(|lane| *lane < written.lanes);
            let number = number.ok_or_else(|| none(format!("`{lane}` is no lane of it")))?;
            decode(&text).ok_or_else(|| none(format!("lane {lane} cannot be read")))?;
            states.insert(number, Arc::from(text));
        }
        if written.lanes == 0 && written.step > 0 {
            return Err(none("it has no lanes".to_owned()));
        }
        Ok(Self {
            rows: written.rows,
            step: written.step,
            lanes: written.lanes,
            batch_size: written.batch_size,
            world_size: written.world_size,
            rank: written.rank,
            identity: written.run.map(WrittenOnce::new).map(Arc::new),
            counts: written.counts,
            carried: written.carried,
            states,
            saved: written.saved,
        })
    }
}

pub(super) fn refused(reason: impl Into<Message>) -> Error {
    Error::option("state", reason)
}

/// Bytes as base-64 text.
pub(in crate::stream) fn encode(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(text).ok()
}
