//! [`require_weight_column`]: refuses a weight such as 0.5 where rows have no column of weights.

use crate::config::{Options, RowColumn};
use crate::document::Document;
use crate::error::{Error, Result};

/// Fails if a document has weights and the rows have no column for them.
pub(super) fn require_weight_column(document: Document<'_>, options: &Options) -> Result<()> {
    if options.rows.columns.contains(&RowColumn::LossWeights) {
        return Ok(());
    }
    let Some(weight) = document.fractional_weight() else { return Ok(()) };
    let (column, origin) = (RowColumn::LossWeights.name(), document.origin());
    let reason = format!(
        "have none for the weight {weight} that {origin} gives; add \"{column}\", or leave weights but 0 and 1 out"
    );
    Err(Error::option("columns", reason))
}
