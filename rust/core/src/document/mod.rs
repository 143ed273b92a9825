//! Rendered text and a tokenizer to [`Documents`]: named ragged columns, trained runs and an origin.
//!
//! [`tokenize`] makes documents of text, [`ids`] of those that a record brings.
//! Their columns are in [`ragged_columns`].

mod binary_form;
pub mod bos_and_eos;
pub(crate) mod class_names;
pub mod document_pictures;
mod documents;
pub mod encoders;
pub mod ids;
mod ordinary_ranges;
mod ragged_columns;
mod several_texts;
mod span_edges;
pub mod store;
mod surrounding_tokens;
mod template_literals;
pub mod tokenize;

pub use crate::record::TrainedRun;
pub use document_pictures::{DocumentPicture, DocumentPictureSource, WordBytes};
pub use documents::{Document, Documents, Pass};
pub use ragged_columns::{
    CUSTOM_LABELS, CUSTOM_TOKEN_TYPES, ColumnName, INPUTS, KINDS, LABELS, PARTS, PICTURES, Ragged,
    TURN_ENDS,
};
pub use several_texts::{PartKind, SeveralTexts, TextArrangement};
