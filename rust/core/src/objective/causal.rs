//! [`Causal`]: each token is predicted from those before it.

use super::kind::{Objective, ObjectiveColumn, RowPart};

/// Each token is predicted from those before it.
///
/// Rows hold the ids of documents and their trained runs as they are, so it makes no column: `assemble/labels.rs` writes the labels.
#[derive(Debug)]
pub(super) struct Causal;

impl Objective for Causal {
    fn columns(&self) -> Vec<ObjectiveColumn> {
        Vec::new()
    }

    fn learns(&self, part: RowPart<'_>) -> bool {
        part.document.labels(part.start, part.length) > 0
    }
}
