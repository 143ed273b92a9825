//! [`ImageOptions`]: the pictures of conversations, and what the model's processor makes of them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::config::RowColumn;
use crate::error::{Error, Result};

/// The columns of pictures beside the messages of a record; the first that has a value is taken.
pub const PICTURE_COLUMNS: [&str; 2] = ["images", "image"];

/// The pictures of conversations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "options, and findings of trials, each its own")]
pub struct ImageOptions {
    /// The text that the chat template writes for each picture.
    pub marker: String,
    /// The texts that the chat template writes around it, which belong to the picture.
    pub delimiters: (String, String),
    /// True if a conversation gets the special tokens of the tokenizer, unless it begins with the beginning-of-text token.
    pub adds_special_tokens: bool,
    /// The configuration of the processor and its options, as JSON.
    pub processor: serde_json::Value,
    /// The columns that the processor returns for each token, with the types of tokens; 0 for all others.
    pub token_types: Vec<TokenTypes>,
    /// The folder in which relative paths begin; by default that of the record's file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// True if rows hold the bytes of their pictures.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub embed: bool,
    /// True if the tokens of a picture depend on the number of pictures in its document; then no cut falls between them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub depends_on_number: bool,
    /// True if pictures on web servers are fetched.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fetch: bool,
}

/// A column with the type of each token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenTypes {
    /// The column.
    pub column: RowColumn,
    /// The ids of tokens with a type, ascending, and their types.
    pub types: Vec<(u32, i32)>,
}

impl TokenTypes {
    /// The type of a token.
    pub(crate) fn of(&self, id: u32) -> i32 {
        let at = self.types.binary_search_by_key(&id, |(id, _)| *id);
        at.map_or(0, |at| self.types[at].1)
    }
}

impl ImageOptions {
    /// The configuration of a processor from its JSON.
    ///
    /// # Errors
    ///
    /// [`Error::Option`] if it is no JSON.
    pub fn processor(json: &str) -> Result<serde_json::Value> {
        serde_json::from_str(json).map_err(|error| {
            Error::option(
                "reading.images",
                format!("has a processor whose configuration is no JSON: {error}"),
            )
        })
    }

    /// Adds the columns of rows with pictures that are missing.
    pub fn add_columns(&self, columns: &mut Vec<RowColumn>) {
        let types = self.token_types.iter().map(|types| types.column);
        for column in types.chain([RowColumn::Images]) {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
    }
}
