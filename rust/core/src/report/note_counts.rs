//! [`Notes`]: the notes on records that are kept: fields that are left out of the text, conversations that became
//! several documents, and each [`Note`].

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Origin, add_place, add_places};
use crate::report::note_kinds::{Note, NoteSet};
use crate::util::message::counted;

/// The most places of each note.
const PLACES: usize = 3;

/// The most fields that are counted by name: the first by the alphabet. Records may have any keys.
const FIELDS: usize = 256;

/// The fields of messages that hold content. Others, such as ids and dates, are counted without a warning. Reasoning and
/// calls have notes of their own.
const CONTENT_FIELDS: [&str; 2] = ["tools", "refusal"];

/// The number of records with the same note, and the places of the first of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Noted {
    /// The number of records.
    pub records: u64,
    /// The places of the first records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<NotedPlace>,
}

/// The place of a record with a note.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NotedPlace {
    /// The file and line of the record.
    #[serde(flatten)]
    pub origin: Origin,
    /// The index of the message in it that the note is of; `None` for a note of the record as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<usize>,
}

impl NotedPlace {
    /// The place as reports show it. `place` writes the file and line.
    fn report(&self, place: &dyn Fn(&Origin) -> String) -> String {
        let shown = place(&self.origin);
        match self.message {
            Some(message) => format!("{shown}, message {message}"),
            None => shown,
        }
    }
}

/// Notes as reports show them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotedReport {
    /// The number of records.
    pub records: u64,
    /// The places of the first records: `file:line`, and the index of the message if the note is of one.
    pub places: Vec<String>,
}

/// The documents of conversations that became several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationDocuments {
    /// Their number.
    pub documents: u64,
    /// Their tokens.
    pub tokens: u64,
    /// The tokens of the last document of each conversation, which `turns="last"` makes.
    pub last_tokens: u64,
    /// The tokens of one document of each, which `turns="whole"` makes: those of the last document, in proportion to
    /// its text where the one document has another.
    pub whole_tokens: u64,
    /// The trained turns.
    pub turns: u64,
    /// The trained turns that one document has otherwise than the model writes them, or behind another text.
    pub rewritten_turns: u64,
}

/// The conversations that became several documents, because the chat template writes earlier turns otherwise once others
/// follow, or because each turn was to have one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitConversations<N = Noted> {
    /// The number of conversations, and the places of the first.
    #[serde(flatten)]
    pub noted: N,
    /// Their documents.
    #[serde(flatten)]
    pub split: ConversationDocuments,
}

impl<N> SplitConversations<N> {
    /// True without a split conversation.
    pub(crate) fn is_empty(&self) -> bool {
        self.split.documents == 0
    }
}

impl ConversationDocuments {
    fn add(&mut self, more: Self) {
        self.documents += more.documents;
        self.tokens += more.tokens;
        self.last_tokens += more.last_tokens;
        self.whole_tokens += more.whole_tokens;
        self.turns += more.turns;
        self.rewritten_turns += more.rewritten_turns;
    }
}

impl SplitConversations {
    fn add(&mut self, split: ConversationDocuments, origin: impl FnOnce() -> Origin) {
        self.noted.add(None, origin);
        self.split.add(split);
    }

    fn merge(&mut self, later: Self) {
        self.noted.merge(later.noted);
        self.split.add(later.split);
    }

    /// The note as reports show it. `place` writes a place.
    pub(crate) fn report(
        &self,
        place: &dyn Fn(&Origin) -> String,
    ) -> SplitConversations<NotedReport> {
        SplitConversations { noted: self.noted.report(place), split: self.split }
    }

    /// A warning, if all documents, of `read` tokens, have more than half as many tokens again as with one document a
    /// conversation.
    fn warning(&self, read: u64) -> Option<String> {
        let ConversationDocuments {
            documents,
            tokens,
            last_tokens,
            whole_tokens,
            turns,
            rewritten_turns,
        } = self.split;
        let more = tokens.saturating_sub(whole_tokens);
        let without = read.saturating_sub(more);
        (2 * more > without).then(|| {
            let records = self.noted.records;
            format!(
                "{} became {} of {tokens} tokens, {more} more than turns=\"whole\" makes, which is {} % of all; \
                 turns=\"whole\" makes one document of each, of {whole_tokens} tokens, and trains {rewritten_turns} of \
                 {} in a form that the model never writes; turns=\"last\" makes one of each, of {last_tokens} tokens, \
                 and trains the last turn alone",
                counted(records, "conversation"),
                counted(documents, "document"),
                100 * more / without.max(1),
                counted(turns, "turn"),
            )
        })
    }
}

/// The notes on records that are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notes {
    /// The records with a field that is left out of the text, by field.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<String, Noted>,
    /// The records with a text field that is not read and whose text the document lacks, by field.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unread: BTreeMap<String, Noted>,
    /// The records with each other note.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub noted: BTreeMap<Note, Noted>,
    /// The conversations that became several documents.
    #[serde(default, skip_serializing_if = "SplitConversations::is_empty")]
    pub split_conversations: SplitConversations,
}

/// The notes of one record.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordNotes<'s> {
    /// The fields that the chat template leaves out of the text.
    pub left_out: &'s [Arc<str>],
    /// The text fields that are not read.
    pub unread: &'s [Arc<str>],
    /// The other notes.
    pub notes: NoteSet,
    /// Its documents, if they are several.
    pub split: Option<ConversationDocuments>,
}

impl Noted {
    fn add(&mut self, message: Option<usize>, origin: impl FnOnce() -> Origin) {
        self.records += 1;
        add_place(&mut self.places, NotedPlace { origin: origin(), message }, PLACES);
    }

    fn merge(&mut self, later: Self) {
        self.records += later.records;
        add_places(&mut self.places, later.places, PLACES);
    }

    /// The note as reports show it. `place` writes a place.
    pub(crate) fn report(&self, place: &dyn Fn(&Origin) -> String) -> NotedReport {
        let places = self.places.iter().map(|noted| noted.report(place)).collect();
        NotedReport { records: self.records, places }
    }
}

/// Counts the fields of a record.
fn add_fields(
    counts: &mut BTreeMap<String, Noted>,
    fields: &[Arc<str>],
    origin: impl Fn() -> Origin,
) {
    for field in fields {
        match counts.get_mut(&**field) {
            Some(noted) => noted.add(None, &origin),
            None => counts.entry(field.to_string()).or_default().add(None, &origin),
        }
    }
    shorten(counts);
}

/// Adds the counts of a later part of the input.
fn merge_fields(counts: &mut BTreeMap<String, Noted>, later: BTreeMap<String, Noted>) {
    for (field, noted) in later {
        counts.entry(field).or_default().merge(noted);
    }
    shorten(counts);
}

/// Keeps the first fields by the alphabet, found in any order.
fn shorten(counts: &mut BTreeMap<String, Noted>) {
    while counts.len() > FIELDS {
        counts.pop_last();
    }
}

impl Notes {
    /// True if nothing is told.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Counts the notes of a record.
    pub(crate) fn add(&mut self, seen: RecordNotes<'_>, origin: impl Fn() -> Origin) {
        add_fields(&mut self.left_out, seen.left_out, &origin);
        add_fields(&mut self.unread, seen.unread, &origin);
        for note in seen.notes.iter() {
            self.noted.entry(note).or_default().add(seen.notes.message(note), &origin);
        }
        if let Some(split) = seen.split {
            self.split_conversations.add(split, &origin);
        }
    }

    /// Adds the notes of a later part of the input.
    pub(crate) fn merge(&mut self, later: Self) {
        merge_fields(&mut self.left_out, later.left_out);
        merge_fields(&mut self.unread, later.unread);
        for (note, noted) in later.noted {
            self.noted.entry(note).or_default().merge(noted);
        }
        self.split_conversations.merge(later.split_conversations);
    }

    /// All notes.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Noted> {
        let fields = self.left_out.values_mut().chain(self.unread.values_mut());
        fields.chain(self.noted.values_mut()).chain([&mut self.split_conversations.noted])
    }

    /// The fields that the documents lack, left out by the chat template or not read, as reports show them.
    pub(crate) fn left_out_report(
        &self,
        place: &dyn Fn(&Origin) -> String,
    ) -> BTreeMap<String, NotedReport> {
        let mut fields = self.left_out.clone();
        merge_fields(&mut fields, self.unread.clone());
        fields.into_iter().map(|(field, noted)| (field, noted.report(place))).collect()
    }

    /// The records with other notes, as reports show them.
    pub(crate) fn noted_report(
        &self,
        place: &dyn Fn(&Origin) -> String,
    ) -> BTreeMap<Note, NotedReport> {
        self.noted.iter().map(|(note, noted)| (*note, noted.report(place))).collect()
    }

    /// The warnings about them, of records with `read` tokens. `place` writes a place.
    pub(crate) fn warnings(&self, place: &dyn Fn(&Origin) -> String, read: u64) -> Vec<String> {
        let first = |noted: &Noted| {
            let place = noted.places.first().map(|noted| noted.report(place));
            place.map_or_else(String::new, |place| format!(", first at {place}"))
        };
        let is_reported =
            |field: &str| CONTENT_FIELDS.contains(&field) || field.ends_with(" content");
        let fields =
            self.left_out.iter().filter(|(field, _)| is_reported(field)).map(|(field, noted)| {
                format!(
                    "the chat template leaves `{field}` out of the text of {}{}; \
                 another `chat_template` may print it, or a `map` can write it into the messages",
                    counted(noted.records, "record"),
                    first(noted)
                )
            });
        let unread = self.unread.iter().map(|(field, noted)| {
            format!(
                "the text of {} lacks the field `{field}`{}, which is not read; `reading.shape` or `reading.fields` may name it, or a \
                 `map` can write it into a field that is read",
                counted(noted.records, "record"),
                first(noted)
            )
        });
        let noted = self.noted.iter().map(|(note, noted)| {
            note.warning(&counted(noted.records, "record"), noted.records == 1, &first(noted))
        });
        fields.chain(unread).chain(noted).chain(self.split_conversations.warning(read)).collect()
    }
}
