//! [`Reason`]: the reason that a record or document is not in the output.

use serde::{Deserialize, Serialize};

/// The reason that a record or document is not in the output, as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// The line is not JSON as `json.loads` reads it.
    InvalidJson,
    /// The item is not CBOR.
    InvalidCbor,
    /// The line is not UTF-8.
    InvalidUtf8,
    /// A string holds half of a surrogate pair.
    LoneSurrogate,
    /// Lists and objects are nested deeper than fastpack reads.
    TooDeep,
    /// The line is longer than fastpack reads.
    LineTooLong,
    /// The rest of the file is cut off, or is invalid in its format.
    Damaged,
    /// The record is not an object.
    NotAnObject,
    /// The record has no field that holds a conversation or a text.
    NoContent,
    /// The record has another shape than those before it in its file, or one of another objective.
    OtherShape,
    /// A field has a wrong type.
    WrongType,
    /// The role of a turn is unknown.
    UnknownRole,
    /// A message holds something that is not text, such as an image.
    NotText,
    /// A picture is missing, is no picture, or has no place in its conversation.
    Picture,
    /// The record is empty: it has no message, text, answer or id. It does not count as a bad record.
    Empty,
    /// The chat template refused the conversation, or could not render it.
    Template,
    /// The trained parts of the conversation could not be found.
    Unmaskable,
    /// The tokenizer refused the text.
    Tokenizer,
    /// The document has no trained token besides its first, whose label is never predicted.
    NoTrainedToken,
    /// The document is longer than a row.
    TooLong,
    /// The document shows more pictures than a row may.
    TooManyPictures,
    /// The caller's `filter` left the record out.
    Filtered,
    /// The document was not drawn by the share of its source. It does not count as lost.
    NotDrawn,
    /// The tokens are in the last row of `concat`, which was not full.
    Tail,
    /// The tokens are in rows that ranks could not share equally.
    Remainder,
    /// The tokens were cut off a document that was kept.
    Truncated,
}

impl Reason {
    /// The name in reports and on exceptions.
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidJson => "invalid_json",
            Self::InvalidCbor => "invalid_cbor",
            Self::InvalidUtf8 => "invalid_utf8",
            Self::LoneSurrogate => "lone_surrogate",
            Self::TooDeep => "too_deep",
            Self::LineTooLong => "line_too_long",
            Self::Damaged => "damaged",
            Self::NotAnObject => "not_an_object",
            Self::NoContent => "no_content",
            Self::OtherShape => "other_shape",
            Self::WrongType => "wrong_type",
            Self::UnknownRole => "unknown_role",
            Self::NotText => "not_text",
            Self::Picture => "picture",
            Self::Empty => "empty",
            Self::Template => "template",
            Self::Unmaskable => "unmaskable",
            Self::Tokenizer => "tokenizer",
            Self::NoTrainedToken => "no_trained_token",
            Self::TooLong => "too_long",
            Self::TooManyPictures => "too_many_pictures",
            Self::Filtered => "filtered",
            Self::NotDrawn => "not_drawn",
            Self::Tail => "tail",
            Self::Remainder => "remainder",
            Self::Truncated => "truncated",
        }
    }
}
