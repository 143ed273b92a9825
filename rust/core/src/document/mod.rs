//! Rendered text and a tokenizer to [`Documents`]: named ragged columns, trained runs and an origin.
//!
//! [`tokenize`] makes documents of text, [`ids`] of those that a record brings.
//! Their columns are in [`ragged_columns`].

mod binary_form;
pub mod bos_and_eos;
pub(crate) mod class_names;
mod documents;
pub mod encoders;
pub mod ids;
mod ordinary_ranges;
pub mod pictures;
mod ragged_columns;
mod several_texts;
mod span_edges;
pub mod store;
mod surrounding_tokens;
mod template_literals;
pub mod tokenize;

pub use crate::record::TrainedRun;
pub use documents::{Document, Documents, Pass};
pub use pictures::{DocumentPicture, DocumentPictureSource, WordBytes};
pub use ragged_columns::{
    ColumnName, INPUTS, KINDS, LABELS, MADE_LABELS, MADE_TYPES, PARTS, PICTURES, Ragged, TURN_ENDS,
};
pub use several_texts::{PartKind, Several, Whole};
