//! [`Objective`]: from the ids and spans of documents to the columns of rows that a training objective reads.
//!
//! Each objective has a file of its own. It says which columns it makes, how many tokens a piece of a document takes
//! in a row, and fills the columns for one piece. All other columns, such as `position_ids`, follow from these.
//!
//! Documents are stored before an objective acts on them. So kept tokens serve every objective that reads the same
//! columns of documents, with any seed.

mod causal;
mod classes;
mod classification;
mod fim;
mod function;
mod generation;
mod kind;
mod mlm;
mod preference;
mod span;
mod vocabulary;

use std::sync::Arc;

use crate::config::{DocumentKind, ObjectiveOptions, Options};
use crate::document::{ColumnName, INPUTS, KINDS, LABELS, PARTS};
use crate::error::Result;

pub use classes::FoundClasses;
pub(crate) use kind::UNTRAINED;
pub use kind::{
    ColumnValues, Objective, ObjectiveColumn, ObjectiveVocabulary, PaddingValues, PartSize,
    RowLimits, RowPart,
};

/// The columns of documents of a kind, as they are made from records: those that their objectives
/// [`read`](Objective::reads), except the columns that a function of the caller makes.
pub fn document_columns(kind: DocumentKind) -> &'static [ColumnName] {
    match kind {
        DocumentKind::Texts | DocumentKind::Converted | DocumentKind::Prompts => &[INPUTS],
        DocumentKind::Pairs => &[INPUTS, PARTS],
        DocumentKind::Judged => &[INPUTS, PARTS, LABELS],
        DocumentKind::Labelled | DocumentKind::MultiLabelled => &[INPUTS, PARTS, KINDS, LABELS],
    }
}

/// The objective that the options ask for.
///
/// Fails with [`Error::Option`](crate::Error::Option) if the tokenizer lacks a token that the objective needs.
pub fn objective(
    options: &Options,
    vocabulary: ObjectiveVocabulary<'_>,
) -> Result<Arc<dyn Objective>> {
    match &options.rows.objective {
        ObjectiveOptions::Causal => Ok(causal()),
        ObjectiveOptions::Mlm(options) => Ok(Arc::new(mlm::Mlm::new(options, vocabulary)?)),
        ObjectiveOptions::Span(options) => Ok(Arc::new(span::Span::new(options, vocabulary)?)),
        ObjectiveOptions::Fim(fim) => {
            Ok(Arc::new(fim::Fim::new(fim, options.rows.shift_labels, vocabulary)?))
        }
        ObjectiveOptions::Preference { form } => Ok(Arc::new(preference::Preference::new(*form))),
        ObjectiveOptions::Generation => Ok(Arc::new(generation::Generation)),
        ObjectiveOptions::Function => Ok(Arc::new(function::Function)),
        name @ (ObjectiveOptions::Classification | ObjectiveOptions::MultiLabel) => {
            let several = *name == ObjectiveOptions::MultiLabel;
            let side = options.rows.packing.truncation_side;
            let classes = &options.tokens.classes;
            Ok(Arc::new(classification::Classification::new(several, side, classes)))
        }
    }
}

/// The causal objective.
pub fn causal() -> Arc<dyn Objective> {
    Arc::new(causal::Causal)
}
