//! The parts of compiled models: merging, the search for the best tokens, scores.

pub(super) mod merge;
pub(super) mod neighbours;
pub(super) mod scores;
pub(super) mod viterbi;
