//! [`Reason`]: why a record or document is not in the output.

use serde::{Deserialize, Serialize};

/// Why a record or document is not in the output: the name it is counted under.
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
    /// The rest of the file is cut off, or is not what its format asks for.
    Damaged,
    /// The record is not an object.
    NotAnObject,
    /// The record has no field that holds a conversation or a text.
    NoContent,
    /// The record has another shape than those before it in its file.
    OtherShape,
    /// A field has a type that it cannot have.
    WrongType,
    /// A turn is from somebody that fastpack cannot name in a template.
    UnknownRole,
    /// A message holds something that is not text, such as an image.
    NotText,
    /// There is nothing in the record: no message, no text, no answer, no id. It is no bad record.
    Empty,
    /// The chat template refused the conversation, or could not render it.
    Template,
    /// The trained parts of the conversation could not be told from the others.
    Unmaskable,
    /// The tokenizer refused the text.
    Tokenizer,
    /// The document has no trained token, its first label aside.
    NoTrainedToken,
    /// The document is longer than a row.
    TooLong,
    /// The caller's `filter` left the record out.
    Filtered,
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
            Self::Empty => "empty",
            Self::Template => "template",
            Self::Unmaskable => "unmaskable",
            Self::Tokenizer => "tokenizer",
            Self::NoTrainedToken => "no_trained_token",
            Self::TooLong => "too_long",
            Self::Filtered => "filtered",
            Self::Tail => "tail",
            Self::Remainder => "remainder",
            Self::Truncated => "truncated",
        }
    }
}
