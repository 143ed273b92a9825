//! What was read, kept, dropped and why. It must balance.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Origin, Result};

/// How many places the report names for records that were left out.
const PLACES: usize = 10;

/// Why a record or document is not in the output: the name it is counted under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// The line is not JSON as `json.loads` reads it.
    InvalidJson,
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
    /// The conversation has no message, or the text no character.
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
}

impl Reason {
    /// The name in reports and on exceptions.
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidJson => "invalid_json",
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
        }
    }
}

/// A number of documents and of the tokens in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Documents.
    pub documents: u64,
    /// Tokens; a record that was never tokenized has none.
    pub tokens: u64,
}

impl Count {
    /// Adds one document of `tokens` tokens.
    pub fn add(&mut self, tokens: u64) {
        self.documents += 1;
        self.tokens += tokens;
    }

    fn merge(&mut self, other: Self) {
        self.documents += other.documents;
        self.tokens += other.tokens;
    }
}

/// A record that was left out: where, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file and line.
    pub origin: Origin,
    /// The name it is counted under.
    pub reason: Reason,
    /// What was wrong.
    pub message: String,
}

/// What was read, kept, dropped and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Everything that was read.
    pub read: Count,
    /// What the rows hold.
    pub kept: Count,
    /// What they do not hold, by reason.
    pub dropped: BTreeMap<Reason, Count>,
    /// Tokens cut off documents that were kept in part.
    pub truncated: Count,
    /// The first places at which records were left out because they could not be read.
    pub places: Vec<Place>,
}

impl Ledger {
    /// Counts a record that could not be made a document.
    pub fn bad_record(&mut self, place: Place) {
        self.read.add(0);
        self.dropped.entry(place.reason).or_default().add(0);
        if self.places.len() < PLACES {
            self.places.push(place);
        }
    }

    /// Counts records that the caller left out before they were read.
    pub fn filtered(&mut self, records: u64) {
        if records > 0 {
            self.read.documents += records;
            self.dropped.entry(Reason::Filtered).or_default().documents += records;
        }
    }

    /// Counts a document that was read, and that no row will hold.
    pub fn drop_document(&mut self, reason: Reason, tokens: u64) {
        self.dropped.entry(reason).or_default().add(tokens);
    }

    /// Counts a part of a document that no row will hold; the document is counted for itself.
    pub fn drop_part(&mut self, reason: Reason, tokens: u64) {
        self.dropped.entry(reason).or_default().tokens += tokens;
    }

    /// Adds what a later part of the input came to.
    pub fn merge(&mut self, later: Self) {
        self.read.merge(later.read);
        self.kept.merge(later.kept);
        self.truncated.merge(later.truncated);
        for (reason, count) in later.dropped {
            self.dropped.entry(reason).or_default().merge(count);
        }
        let room = PLACES - self.places.len();
        self.places.extend(later.places.into_iter().take(room));
    }

    /// Everything dropped, whatever the reason.
    pub fn dropped_in_all(&self) -> Count {
        let mut sum = Count::default();
        for count in self.dropped.values() {
            sum.merge(*count);
        }
        sum
    }

    /// Fails with [`Error::Unbalanced`] unless what was read is what was kept and what was dropped.
    pub fn balance(&self) -> Result<()> {
        let dropped = self.dropped_in_all();
        let documents = self.kept.documents + dropped.documents;
        let tokens = self.kept.tokens + dropped.tokens + self.truncated.tokens;
        if documents == self.read.documents && tokens == self.read.tokens {
            return Ok(());
        }
        Err(Error::Unbalanced(format!(
            "{} documents and {} tokens were read, {documents} and {tokens} are accounted for",
            self.read.documents, self.read.tokens,
        )))
    }
}
