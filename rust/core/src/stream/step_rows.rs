//! [`StepRows`]: the rows of a step, with its counts and the state after it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::lane::Lane;
use super::state::SourceSnapshot;
use crate::pack::Piece;
use crate::pipeline::PackedCounts;
use crate::report::ledger::Count;

/// The rows of a step, each with the index of its lane. Rows without pieces are padding.
pub(super) struct StepRows {
    pub(super) rows: Vec<(usize, Vec<Piece>)>,
    /// True if the rank has a row here or later that is neither padding nor of epochs read again.
    pub(super) is_needed: bool,
    /// The first row of the run that no rank delivers up to this step.
    pub(super) next: u64,
    /// The lanes that were asked for a row, each with its state before.
    pub(super) before: Vec<(usize, Arc<str>)>,
    /// The documents that these lanes have read and dropped since their last rows, and those of rows that other ranks take.
    pub(super) packed_counts: Vec<(usize, PackedCounts)>,
    pub(super) others: Vec<(usize, PackedCounts)>,
    /// The places in the sources behind the step.
    pub(super) saved: BTreeMap<String, SourceSnapshot>,
}

/// Counts the documents that begin in some rows, and the shares of the sources in them.
pub(super) fn count_documents(
    lanes: &[Lane],
    shares: &mut [Count],
    packed_counts: &mut PackedCounts,
    rows: &[(usize, Vec<Piece>)],
) {
    for (at, pieces) in rows {
        packed_counts.begin(pieces);
        for piece in if shares.len() > 1 { pieces } else { &[][..] } {
            let share = &mut shares[lanes[*at].pool_of(piece)];
            share.documents += u64::from(piece.start == 0);
            share.tokens += u64::from(piece.length);
        }
    }
}
