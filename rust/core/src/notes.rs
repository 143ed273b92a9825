//! [`Notes`]: what is told of records that are kept: fields that are left out of the text, prompts that are
//! formatted already, answers that end in an end-of-text token, lists of texts that were joined.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Origin, Result};
use crate::message::counted;

/// The most places of each note.
const PLACES: usize = 3;

/// The most fields that are counted by name: the first by the alphabet. Records may have any keys.
const FIELDS: usize = 256;

/// The fields of messages that hold what is said. Others, such as those of ids and dates, are counted without a warning.
const SAID: [&str; 7] = [
    "tools",
    "tool_calls",
    "function_call",
    "reasoning_content",
    "reasoning",
    "thinking",
    "refusal",
];

/// The number of records with the same note, and the places of the first of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Noted {
    /// The number of records.
    pub records: u64,
    /// The places of the first records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<Origin>,
}

/// Notes as reports show them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotedReport {
    /// The number of records.
    pub records: u64,
    /// The places of the first records: `file:line`.
    pub places: Vec<String>,
}

/// The conversations that became several documents, because the chat template writes earlier turns otherwise once others
/// follow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitConversations {
    /// The number of conversations, and the places of the first.
    #[serde(flatten)]
    pub noted: Noted,
    /// Their documents.
    pub documents: u64,
    /// The tokens of these documents.
    pub tokens: u64,
    /// The tokens of the last document of each: about those that one document of the whole conversation has.
    pub last_tokens: u64,
    /// The turns that stand in other documents than the last, which one document would train in another form.
    pub rewritten_turns: u64,
}

/// [`SplitConversations`] as reports show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitConversationsReport {
    /// The number of conversations, and the places of the first.
    #[serde(flatten)]
    pub noted: NotedReport,
    /// Their documents.
    pub documents: u64,
    /// The tokens of these documents.
    pub tokens: u64,
    /// The tokens of the last document of each.
    pub last_tokens: u64,
    /// The turns that stand in other documents than the last.
    pub rewritten_turns: u64,
}

impl SplitConversationsReport {
    /// True without a split conversation.
    pub(crate) fn is_empty(&self) -> bool {
        self.noted.is_empty()
    }
}

/// The documents of one conversation, if they are several.
#[derive(Clone, Copy, Debug, Default)]
pub struct SplitConversation {
    /// Their number.
    pub documents: u64,
    /// Their tokens.
    pub tokens: u64,
    /// The tokens of the last.
    pub last_tokens: u64,
    /// The turns in the others.
    pub rewritten_turns: u64,
}

impl SplitConversations {
    fn is_empty(&self) -> bool {
        self.noted.is_empty()
    }

    fn add(&mut self, split: SplitConversation, origin: impl FnOnce() -> Origin) {
        self.noted.add(origin);
        self.documents += split.documents;
        self.tokens += split.tokens;
        self.last_tokens += split.last_tokens;
        self.rewritten_turns += split.rewritten_turns;
    }

    fn merge(&mut self, later: Self) {
        self.noted.merge(later.noted);
        self.documents += later.documents;
        self.tokens += later.tokens;
        self.last_tokens += later.last_tokens;
        self.rewritten_turns += later.rewritten_turns;
    }

    /// The note as reports show it. `place` writes a place.
    pub(crate) fn report(&self, place: &dyn Fn(&Origin) -> String) -> SplitConversationsReport {
        let Self { ref noted, documents, tokens, last_tokens, rewritten_turns } = *self;
        let noted = noted.report(place);
        SplitConversationsReport { noted, documents, tokens, last_tokens, rewritten_turns }
    }

    /// A warning, if the documents have more than half as many tokens again as one document a conversation.
    fn warning(&self) -> Option<String> {
        let more = self.tokens.saturating_sub(self.last_tokens);
        (2 * more > self.last_tokens).then(|| {
            format!(
                "{} became {} with {} % more tokens, because the chat template writes earlier turns otherwise once others \
                 follow; turns=\"whole\" makes one document each and trains {} in a form that the model never writes, \
                 turns=\"last\" makes one and trains the last turn alone",
                counted(self.noted.records, "conversation"),
                counted(self.documents, "document"),
                100 * more / self.last_tokens.max(1),
                counted(self.rewritten_turns, "turn"),
            )
        })
    }
}

/// The notes on records that are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notes {
    /// The records of which a field is left out of the text, by field.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<String, Noted>,
    /// The records with a text field that is not read and whose text the document lacks, by field.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unread: BTreeMap<String, Noted>,
    /// The records with a prompt that is formatted already, and is wrapped again.
    #[serde(default, skip_serializing_if = "Noted::is_empty")]
    pub formatted_prompts: Noted,
    /// The records with an answer that ends in an end-of-text token, inside of its turn.
    #[serde(default, skip_serializing_if = "Noted::is_empty")]
    pub ended_answers: Noted,
    /// The records whose contents were lists of texts, which were joined because the chat template refuses lists.
    #[serde(default, skip_serializing_if = "Noted::is_empty")]
    pub joined_parts: Noted,
    /// The records with a control token of the tokenizer in a text of a user or a tool.
    #[serde(default, skip_serializing_if = "Noted::is_empty")]
    pub control_tokens: Noted,
    /// The conversations that became several documents.
    #[serde(default, skip_serializing_if = "SplitConversations::is_empty")]
    pub split_conversations: SplitConversations,
}

/// The notes of one record.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one record")]
pub struct RecordNotes<'s> {
    /// The fields that the chat template leaves out of the text.
    pub left_out: &'s [Arc<str>],
    /// The text fields that are not read.
    pub unread: &'s [Arc<str>],
    /// Whether a prompt is formatted already.
    pub has_formatted_prompt: bool,
    /// Whether an answer ends in an end-of-text token.
    pub has_ended_answer: bool,
    /// True if lists of texts were joined for the template.
    pub has_joined_parts: bool,
    /// True if a user or tool text contains a control token.
    pub has_control_token: bool,
    /// Its documents, if they are several.
    pub split: Option<SplitConversation>,
}

impl Noted {
    fn is_empty(&self) -> bool {
        self.records == 0
    }

    fn add(&mut self, origin: impl FnOnce() -> Origin) {
        self.records += 1;
        if self.places.len() < PLACES {
            self.places.push(origin());
        }
    }

    fn merge(&mut self, later: Self) {
        self.records += later.records;
        let room = PLACES - self.places.len().min(PLACES);
        self.places.extend(later.places.into_iter().take(room));
    }

    /// The note as reports show it. `place` writes a place.
    pub(crate) fn report(&self, place: &dyn Fn(&Origin) -> String) -> NotedReport {
        NotedReport { records: self.records, places: self.places.iter().map(place).collect() }
    }
}

impl NotedReport {
    /// Whether there is no such record.
    pub(crate) fn is_empty(&self) -> bool {
        self.records == 0
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
            Some(noted) => noted.add(&origin),
            None => counts.entry(field.to_string()).or_default().add(&origin),
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

/// Keeps the first fields by the alphabet, whatever the order in which they were found.
fn shorten(counts: &mut BTreeMap<String, Noted>) {
    while counts.len() > FIELDS {
        counts.pop_last();
    }
}

impl Notes {
    /// Whether nothing is told.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Counts the notes of a record.
    pub(crate) fn add(&mut self, seen: RecordNotes<'_>, origin: impl Fn() -> Origin) {
        add_fields(&mut self.left_out, seen.left_out, &origin);
        add_fields(&mut self.unread, seen.unread, &origin);
        if seen.has_formatted_prompt {
            self.formatted_prompts.add(&origin);
        }
        if seen.has_ended_answer {
            self.ended_answers.add(&origin);
        }
        if seen.has_joined_parts {
            self.joined_parts.add(&origin);
        }
        if seen.has_control_token {
            self.control_tokens.add(&origin);
        }
        if let Some(split) = seen.split {
            self.split_conversations.add(split, &origin);
        }
    }

    /// Adds the notes of a later part of the input.
    pub(crate) fn merge(&mut self, later: Self) {
        merge_fields(&mut self.left_out, later.left_out);
        merge_fields(&mut self.unread, later.unread);
        self.formatted_prompts.merge(later.formatted_prompts);
        self.ended_answers.merge(later.ended_answers);
        self.joined_parts.merge(later.joined_parts);
        self.control_tokens.merge(later.control_tokens);
        self.split_conversations.merge(later.split_conversations);
    }

    /// The notes without places.
    pub(crate) fn counts(&self) -> Self {
        let mut counts = self.clone();
        counts.all_mut().for_each(|noted| noted.places.clear());
        counts
    }

    /// All notes.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Noted> {
        let fields = self.left_out.values_mut().chain(self.unread.values_mut());
        let others = [&mut self.formatted_prompts, &mut self.ended_answers, &mut self.joined_parts];
        let more = [&mut self.control_tokens, &mut self.split_conversations.noted];
        fields.chain(others).chain(more)
    }

    /// Changes every place by `change`.
    pub(crate) fn relocate(
        &mut self,
        mut change: impl FnMut(&mut Origin) -> Result<()>,
    ) -> Result<()> {
        self.all_mut().flat_map(|noted| &mut noted.places).try_for_each(&mut change)
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

    /// The warnings about them. `place` writes a place.
    pub(crate) fn warnings(&self, place: &dyn Fn(&Origin) -> String) -> Vec<String> {
        let first = |noted: &Noted| {
            let place = noted.places.first().map(place);
            place.map_or_else(String::new, |place| format!(", first at {place}"))
        };
        let said = |field: &str| SAID.contains(&field) || field.ends_with(" content");
        let fields = self.left_out.iter().filter(|(field, _)| said(field)).map(|(field, noted)| {
            format!(
                "the chat template leaves `{field}` out of the text of {}{}; \
                 another `chat_template` may print it, or a `map` can write it into the messages",
                counted(noted.records, "record"),
                first(noted)
            )
        });
        let unread = self.unread.iter().map(|(field, noted)| {
            format!(
                "the text of {} lacks the field `{field}`{}, which is not read; `shape` or `fields` may name it, or a \
                 `map` can write it into a field that is read",
                counted(noted.records, "record"),
                first(noted)
            )
        });
        let having = |noted: &Noted| {
            let records = counted(noted.records, "record");
            format!("{records} {}", if noted.records == 1 { "has" } else { "have" })
        };
        let formatted = Some(&self.formatted_prompts).filter(|noted| !noted.is_empty());
        let formatted = formatted.map(|noted| {
            format!(
                "{} a prompt that is formatted already, which is wrapped again{}: it begins with a role \
                 marker, or ends as `### Response:` does; the fields `prompt` and `completion` are joined as they are, \
                 and a `map` can take the markers out",
                having(noted),
                first(noted)
            )
        });
        let ended = Some(&self.ended_answers).filter(|noted| !noted.is_empty()).map(|noted| {
            format!(
                "{} an answer that ends in an end-of-text token, and the chat template ends the turn \
                 after it{}; a `map` can take the token out",
                having(noted),
                first(noted)
            )
        });
        let joined = Some(&self.joined_parts).filter(|noted| !noted.is_empty()).map(|noted| {
            format!(
                "{} content in lists of texts, which the chat template refuses: the texts are joined{}; a `map` can \
                 join them in another way",
                having(noted),
                first(noted)
            )
        });
        let controls = Some(&self.control_tokens).filter(|noted| !noted.is_empty()).map(|noted| {
            format!(
                "{} a control token of the tokenizer in a text of a user or a tool{}, which becomes that token, as \
                 `transformers` encodes it; a `map` can take it out",
                having(noted),
                first(noted)
            )
        });
        let noted = formatted.into_iter().chain(ended).chain(joined).chain(controls);
        fields.chain(unread).chain(noted).chain(self.split_conversations.warning()).collect()
    }
}
