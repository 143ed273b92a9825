//! [`MarkersInTexts`]: finds prompts that are formatted already, answers that end in an end-of-text token, and control
//! tokens that users or tools wrote.
//!
//! Of the first two, only the ends of a text are looked at, so it takes the same time for any text.

use std::sync::Arc;

use fastpack_template::json::{Json, Map};

use crate::pipeline::documents::rendering::control_tokens::find_control_tokens::{
    ControlMarks, ControlTokens,
};
use crate::pipeline::job::{Job, JobTemplate};
use crate::record::{ReplayReader, is_assistant, texts_in};
use crate::report::ledger::{Note, NoteSet};

/// The markers that a formatted prompt begins with, besides those of the chat template.
const BEGINNINGS: [&str; 19] = [
    "<|im_start|>",
    "<|start_header_id|>",
    "<|begin_of_text|>",
    "<|start_of_role|>",
    "<|user|>",
    "<|system|>",
    "<start_of_turn>",
    "<｜User｜>",
    "<s>[INST]",
    "[INST]",
    "<<SYS>>",
    "### Instruction:",
    "### Human:",
    "### User:",
    "### System:",
    "Below is an instruction that describes a task",
    "Human:",
    "USER:",
    "A chat between a curious user and an artificial intelligence assistant",
];

/// The markers that a formatted prompt ends with.
const ENDS: [&str; 14] = [
    "### Response:",
    "### Assistant:",
    "### Answer:",
    "### Output:",
    "Assistant:",
    "ASSISTANT:",
    "[/INST]",
    "<|im_start|>assistant",
    "<|assistant|>",
    "<|end_header_id|>",
    "<|end_of_role|>",
    "<start_of_turn>model",
    "<｜Assistant｜>",
    "<|im_end|>",
];

/// The tokens that end a text or a turn, where a tokenizer has them.
const STOPS: [&str; 11] = [
    "</s>",
    "<eos>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<end_of_turn>",
    "<|end|>",
    "<|return|>",
    "<｜end▁of▁sentence｜>",
    "<|END_OF_TURN_TOKEN|>",
];

/// The role of prompts.
const USER: &str = "user";

/// The roles that give rules. They and the assistant may write control tokens.
const RULES: [&str; 2] = ["system", "developer"];

/// The key of the text of a message.
const CONTENT: &str = "content";

/// The markers that are searched for at the ends of texts.
pub(crate) struct MarkersInTexts {
    beginnings: Markers,
    ends: Markers,
    /// The tokens that end a text or a turn.
    stops: Markers,
    controls: ControlTokens,
}

/// Some markers, and the bytes by which a text without them is passed over.
struct Markers {
    all: Vec<String>,
    /// The bytes that one of them begins, or ends, with.
    bytes: [bool; 256],
}

impl Markers {
    fn new(mut all: Vec<String>, byte: impl Fn(&str) -> Option<u8>) -> Self {
        all.retain(|marker| !marker.is_empty());
        let mut bytes = [false; 256];
        for byte in all.iter().filter_map(|marker| byte(marker)) {
            bytes[usize::from(byte)] = true;
        }
        Self { all, bytes }
    }

    fn begin(&self, text: &str) -> bool {
        let text = text.trim_start();
        first_byte(text).is_some_and(|byte| self.bytes[usize::from(byte)])
            && self.all.iter().any(|marker| text.starts_with(marker.as_str()))
    }

    fn end(&self, text: &str) -> bool {
        let text = text.trim_end();
        last_byte(text).is_some_and(|byte| self.bytes[usize::from(byte)])
            && self.all.iter().any(|marker| text.ends_with(marker.as_str()))
    }
}

fn first_byte(text: &str) -> Option<u8> {
    text.as_bytes().first().copied()
}

fn last_byte(text: &str) -> Option<u8> {
    text.as_bytes().last().copied()
}

impl MarkersInTexts {
    /// The markers of a job's chat template and tokenizer, and those of published formats.
    pub(crate) fn of(job: &Job) -> Self {
        let owned = |markers: &[&str]| markers.iter().map(|it| (*it).to_owned()).collect();
        let (mut beginnings, mut stops): (Vec<String>, Vec<String>) =
            (owned(&BEGINNINGS), Vec::new());
        stops.extend(job.end.clone());
        if let JobTemplate::Ready(template) = &job.template {
            let has = |stop: &&&str| template.has_special_token(stop);
            stops.extend(STOPS.iter().filter(has).map(|stop| (*stop).to_owned()));
            if !template.is_refused() {
                beginnings.extend(template.markers());
            }
        }
        Self {
            beginnings: Markers::new(beginnings, first_byte),
            ends: Markers::new(owned(&ENDS), last_byte),
            stops: Markers::new(stops, last_byte),
            controls: ControlTokens::of(job.tokenizer.as_ref()),
        }
    }

    /// True if a prompt is formatted already.
    pub(crate) fn is_formatted(&self, prompt: &str) -> bool {
        self.beginnings.begin(prompt) || self.ends.end(prompt)
    }

    /// True if a text that a user gave has a control token of the tokenizer.
    pub(crate) fn has_control_token(&self, text: &str) -> bool {
        self.controls.occur_in(text)
    }

    /// The messages with marks around the control tokens in texts of users and tools, and the marks.
    pub(crate) fn mark_controls(
        &self,
        messages: &[Arc<Map>],
    ) -> Option<(Vec<Arc<Map>>, ControlMarks)> {
        let whole: Vec<Json> =
            messages.iter().map(|message| Json::Map(Arc::clone(message))).collect();
        let mut texts = Vec::new();
        for message in &whole {
            texts_in(message, &mut texts);
        }
        let marks = ControlMarks::absent_from(&texts)?;
        let marked = messages.iter().map(|message| {
            let is_input =
                matches!(message.get("role"), Some(Json::String(role)) if is_input_role(role));
            match message.get(CONTENT) {
                Some(content) if is_input => {
                    let mut marked = Map::clone(message);
                    marked.insert(CONTENT.into(), self.controls.marked_value(content, marks));
                    Arc::new(marked)
                }
                _ => Arc::clone(message),
            }
        });
        Some((marked.collect(), marks))
    }

    /// A text that a user gave with marks around its control tokens.
    pub(crate) fn mark_control(&self, text: &str, marks: ControlMarks) -> String {
        self.controls.marked(text, marks)
    }

    /// Looks at the beginning and the end of the text of a message.
    fn look(&self, role: &str, ends: TextEnds<'_>, message: usize, notes: &mut NoteSet) {
        let TextEnds { first, last } = ends;
        if role == USER {
            let is_formatted = self.beginnings.begin(first) || self.ends.end(last);
            notes.set_in(Note::FormattedPrompts, message, is_formatted);
        } else if is_assistant(role) {
            notes.set_in(Note::EndedAnswers, message, self.stops.end(last));
        }
    }

    /// The facts of a conversation that the fast reader has read.
    pub(crate) fn in_fast_read(&self, reader: &ReplayReader) -> NoteSet {
        let mut notes = NoteSet::default();
        let mut roles = reader.roles().enumerate();
        let mut current = roles.next();
        for ((message, key), range) in reader.places().zip(reader.ranges()) {
            while current.is_some_and(|(at, _)| at < message) {
                current = roles.next();
            }
            if let Some((_, role)) = current.filter(|_| key == CONTENT) {
                let text = &reader.decoded()[range.clone()];
                self.look(role, TextEnds::of(text), message, &mut notes);
                let has = is_input_role(role) && self.controls.occur_in(text);
                notes.set_in(Note::ControlTokens, message, has);
            }
        }
        for (place, value) in reader.value_places().zip(reader.values()) {
            if let Some((message, CONTENT)) = place
                && let Some(role) = reader.roles().nth(message)
            {
                if let Some(ends) = TextEnds::of_content(value) {
                    self.look(role, ends, message, &mut notes);
                }
                let has = is_input_role(role) && self.controls.occur_in_value(value);
                notes.set_in(Note::ControlTokens, message, has);
            }
        }
        notes
    }

    /// The facts of the messages of a conversation.
    pub(crate) fn in_messages(&self, messages: &[Arc<Map>]) -> NoteSet {
        let mut notes = NoteSet::default();
        for (at, message) in messages.iter().enumerate() {
            let (Some(Json::String(role)), Some(content)) =
                (message.get("role"), message.get(CONTENT))
            else {
                continue;
            };
            if let Some(ends) = TextEnds::of_content(content) {
                self.look(role, ends, at, &mut notes);
            }
            let has = is_input_role(role) && self.controls.occur_in_value(content);
            notes.set_in(Note::ControlTokens, at, has);
        }
        notes
    }
}

/// True if messages of a role are of users or tools.
fn is_input_role(role: &str) -> bool {
    !is_assistant(role) && !RULES.contains(&role)
}

/// The first and the last text of a message. They are the same where it has one.
#[derive(Clone, Copy)]
struct TextEnds<'t> {
    first: &'t str,
    last: &'t str,
}

impl<'t> TextEnds<'t> {
    fn of(text: &'t str) -> Self {
        Self { first: text, last: text }
    }

    fn of_content(content: &'t Json) -> Option<Self> {
        match content {
            Json::String(text) => Some(Self::of(text)),
            Json::List(parts) => {
                Some(Self { first: text_of(parts.first()?)?, last: text_of(parts.last()?)? })
            }
            _ => None,
        }
    }
}

/// The text of a part.
fn text_of(part: &Json) -> Option<&str> {
    match part {
        Json::String(text) => Some(text),
        Json::Map(part) => match part.get("text")? {
            Json::String(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}
