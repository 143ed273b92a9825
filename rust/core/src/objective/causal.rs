//! [`Causal`]: each token is predicted from those before it.

use super::kind::{Column, Objective, Part};

/// Each token is predicted from those before it.
///
/// Rows hold the ids of documents and their trained runs as they are, so it makes no column.
#[derive(Debug)]
pub(super) struct Causal;

impl Objective for Causal {
    fn columns(&self) -> Vec<Column> {
        Vec::new()
    }

    fn learns(&self, part: Part<'_>) -> bool {
        part.document.labels(part.start, part.length) > 0
    }
}
