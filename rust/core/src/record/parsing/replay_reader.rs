//! [`ReplayReader`]: the fast reader of conversations. It separates their texts from their structure.
//!
//! Most conversations are messages of texts. The texts are copied into one buffer, end to end. Lists, objects and
//! numbers become [`ReplayReader::values`]. The structure becomes a few bytes, the [`ReplayReader::outline`]: conversations
//! with the same outline differ only in their texts and values. Most lines of JSON and [rows](ReplayReader::row) of tables
//! are [read](ReplayReader::read) this way without building values. All others, valid or not, are left to
//! [`read`](fn@crate::record::read), and its result for a line, a row or a request with its answer is [taken](ReplayReader::take).

use std::cell::OnceCell;
use std::ops::Range;

use arrow::array::{Array, AsArray, RecordBatch};

use super::json;
use super::line_cursor::LineCursor;
use super::value_access::{ArrayItem, ValueAccess};
use super::write;
use crate::config::inputs::fields::TEMPLATE_KWARGS;
use crate::config::{Part, ShapeName};
use crate::record::content_hash;
use crate::record::kinds::Conversation;
use crate::record::shape::Shape;
use crate::record::shapes::flags;
use crate::record::shapes::flags::{TRAINED, WEIGHT, is_assistant};
use crate::record::shapes::messages::{FUNCTION_CALL, ROLES, check_content};
use crate::record::texts::texts_in;
use fastpack_template::json::Json;

/// The most messages of a conversation that is read here: the outlines of longer ones hardly occur again.
const MOST_MESSAGES: usize = 200;

/// The most names of keys and roles, one byte each, and the most bytes of a name.
const MOST_NAMES: usize = 200;
const LONGEST_NAME: usize = 64;

/// The most bytes of the text buffer that are kept for the next line.
const KEPT: usize = 1 << 22;

/// The names with fixed numbers.
const NAMES: [&str; 4] = ["role", "content", "from", "value"];
const ROLE: u8 = 1;
const CONTENT: u8 = 2;
const FROM: u8 = 3;
const VALUE: u8 = 4;

/// The end of a message in an outline.
const END: u8 = 0;

/// The marks in an outline for values that are no texts. No name has these numbers.
const VALUE_OF_KEY: u8 = 255;
const TOOLS: u8 = 254;
const KWARGS: u8 = 253;
const FLAGGED: u8 = 252;
const PROMPT: u8 = 251;

/// The most bytes of arguments to the template in an outline.
const MOST_KWARGS: usize = 1 << 12;

/// The nesting depths of values in a record.
const IN_RECORD: usize = 1;
const IN_MESSAGE: usize = 3;

/// The fast reader: reads one conversation after the other, reusing its buffers.
#[derive(Debug, Default)]
pub struct ReplayReader {
    names: KeyAndRoleNames,
    outline: Vec<u8>,
    /// The name of each message's role.
    roles: Vec<u8>,
    /// The message and the key of each text.
    places: Vec<(usize, u8)>,
    /// The range of each text in `decoded`.
    ranges: Vec<Range<usize>>,
    decoded: String,
    /// The values that are no texts, and the message and the key of each. Tools belong to no message.
    values: Vec<Json>,
    value_places: Vec<(Option<usize>, u8)>,
    value_bytes: usize,
    /// The weights of the messages by their own flags; valid only if `flagged`.
    weights: Vec<Option<f32>>,
    flagged: bool,
    /// The number of messages in the prompt.
    prompt: Option<usize>,
    /// True after an unread text field.
    has_unread: bool,
    /// The last tools, as text, as a value and as a hash: many records have the same.
    tools: Option<(String, Json, OnceCell<u64>)>,
    /// The hash of the arguments to the template.
    kwargs: u64,
}

/// The names of keys and roles that were met, in the order of their numbers.
#[derive(Debug)]
struct KeyAndRoleNames(Vec<Box<str>>);

impl Default for KeyAndRoleNames {
    fn default() -> Self {
        Self(NAMES.map(Box::from).into())
    }
}

impl ReplayReader {
    /// Reads a conversation of this shape; `false` if [`read`](fn@crate::record::read) must read it.
    pub fn read(&mut self, line: &[u8], shape: &Shape) -> bool {
        self.clear();
        shape.name() == ShapeName::Conversations && self.conversation(line, shape).is_some()
    }

    /// Reads a conversation of this shape from a row of a table; `false` if [`read`](fn@crate::record::read) must
    /// read it.
    pub fn row(&mut self, batch: &RecordBatch, row: usize, shape: &Shape) -> bool {
        self.clear();
        shape.name() == ShapeName::Conversations && self.columns(batch, row, shape).is_some()
    }

    /// Takes a conversation that was read; `false` if its outline would be too large.
    pub fn take(&mut self, conversation: &Conversation) -> bool {
        self.clear();
        self.whole(conversation).is_some()
    }

    /// The structure of the conversation without texts and values: the number, keys and roles of the
    /// messages, the number of messages in the prompt, and its own arguments to the template.
    ///
    /// Only outlines of the same `ReplayReader` can be compared.
    pub fn outline(&self) -> &[u8] {
        &self.outline
    }

    /// The texts, end to end.
    pub fn decoded(&self) -> &str {
        &self.decoded
    }

    /// The range of each text in [`decoded`](Self::decoded).
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }

    /// The message and the key of each text.
    pub fn places(&self) -> impl ExactSizeIterator<Item = (usize, &str)> + '_ {
        self.places.iter().map(|(message, key)| (*message, self.name_of(*key)))
    }

    /// The approximate number of bytes of the texts and the values in the line, never more.
    pub fn size(&self) -> usize {
        self.decoded.len() + self.value_bytes
    }

    /// The lists, objects and numbers.
    pub fn values(&self) -> &[Json] {
        &self.values
    }

    /// The message and the key of each value; `None` for the tools.
    pub fn value_places(&self) -> impl ExactSizeIterator<Item = Option<(usize, &str)>> + '_ {
        self.value_places.iter().map(|(message, key)| Some(((*message)?, self.name_of(*key))))
    }

    /// The weight of each message by its own flags, if any has one.
    pub fn weights(&self) -> Option<&[Option<f32>]> {
        self.flagged.then_some(&self.weights)
    }

    /// The number of messages in the prompt, which the other messages complete; `None` where the record has
    /// no prompt.
    pub fn prompt(&self) -> Option<usize> {
        self.prompt
    }

    /// True after an unread text field.
    pub fn has_unread(&self) -> bool {
        self.has_unread
    }

    /// The role of each message.
    pub fn roles(&self) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator + '_ {
        self.roles.iter().map(|role| self.name_of(*role))
    }

    /// The hash of the content of a conversation that was read from a line or a row.
    pub(crate) fn content(&self) -> u64 {
        let roles =
            self.roles().map(|role| content_hash::entry("role", content_hash::of_string(role)));
        let mut messages: Vec<u64> = roles.collect();
        let mut add = |message: usize, key: &str, value| {
            messages[message] = messages[message].wrapping_add(content_hash::entry(key, value));
        };
        for ((message, key), range) in self.places().zip(&self.ranges) {
            add(message, key, content_hash::of_string(&self.decoded[range.clone()]));
        }
        let mut others = self.kwargs;
        for (place, value) in self.value_places().zip(&self.values) {
            if let Some((message, key)) = place {
                add(message, key, content_hash::of_value(value));
            } else if let Some((_, _, hash)) = &self.tools {
                let tools = hash.get_or_init(|| content_hash::of_part(Part::Tools, value));
                others = others.wrapping_add(*tools);
            }
        }
        content_hash::of_messages(others, messages.into_iter())
    }

    fn name_of(&self, name: u8) -> &str {
        &self.names.0[usize::from(name - 1)]
    }

    fn clear(&mut self) {
        self.outline.clear();
        self.roles.clear();
        self.places.clear();
        self.ranges.clear();
        self.decoded.clear();
        self.decoded.shrink_to(KEPT);
        self.values.clear();
        self.value_places.clear();
        self.value_bytes = 0;
        self.weights.clear();
        self.flagged = false;
        self.prompt = None;
        self.has_unread = false;
        self.kwargs = 0;
    }

    fn whole(&mut self, conversation: &Conversation) -> Option<()> {
        if conversation.messages.len() > MOST_MESSAGES {
            return None;
        }
        for (number, message) in conversation.messages.iter().enumerate() {
            for (key, value) in message.iter() {
                let key = self.name(key)?;
                match value {
                    Json::Null => {}
                    Json::String(role) if key == ROLE => {
                        let name = self.name(role)?;
                        self.outline.extend([ROLE, name]);
                        self.roles.push(name);
                    }
                    Json::String(text) => {
                        let start = self.decoded.len();
                        self.decoded.push_str(text);
                        self.add_text(number, key, start);
                    }
                    other => self.add_value(number, key, other.clone(), other.size()),
                }
            }
            self.outline.push(END);
        }
        if let Some(tools) = &conversation.tools {
            self.add_tools(tools.clone(), tools.size())?;
        }
        if !conversation.template_kwargs.is_empty() {
            let mut text = Vec::new();
            write::map(&conversation.template_kwargs, &mut text);
            self.add_kwargs(&text)?;
        }
        if let Some(weights) = &conversation.weights {
            self.weights.extend_from_slice(weights);
            self.flagged = true;
            self.outline.push(FLAGGED);
        }
        if let Some(prompt) = conversation.prompt {
            self.prompt = Some(prompt);
            self.outline.extend([PROMPT, u8::try_from(prompt).ok()?]);
        }
        (self.roles.len() == conversation.messages.len()).then_some(())
    }

    /// Adds the text of a message, which starts at `start` in `decoded`.
    fn add_text(&mut self, message: usize, key: u8, start: usize) {
        self.outline.push(key);
        self.places.push((message, key));
        self.ranges.push(start..self.decoded.len());
    }

    /// Adds a value of a message, which takes `bytes` bytes.
    fn add_value(&mut self, message: usize, key: u8, value: Json, bytes: usize) {
        self.value_bytes += bytes;
        self.outline.extend([key, VALUE_OF_KEY]);
        self.outline.extend(kind(&value));
        self.value_places.push((Some(message), key));
        self.values.push(value);
    }

    fn add_tools(&mut self, tools: Json, bytes: usize) -> Option<()> {
        let Json::List(list) = &tools else { return None };
        if !list.iter().all(|tool| matches!(tool, Json::Map(_))) {
            return None;
        }
        self.value_bytes += bytes;
        self.outline.extend([TOOLS, count(list)]);
        self.value_places.push((None, END));
        self.values.push(tools);
        Some(())
    }

    fn add_kwargs(&mut self, text: &[u8]) -> Option<()> {
        if text.len() > MOST_KWARGS {
            return None;
        }
        // The chat template may not read a variable with a text.
        let mut texts = Vec::new();
        let variables = json::parse(text).ok()?;
        texts_in(&variables, &mut texts);
        self.has_unread |= !texts.is_empty();
        self.outline.push(KWARGS);
        self.outline.extend(u16::try_from(text.len()).ok()?.to_le_bytes());
        self.outline.extend(text);
        Some(())
    }

    fn conversation(&mut self, line: &[u8], shape: &Shape) -> Option<()> {
        let (field, tools) = (shape.field(Part::Messages), shape.field(Part::Tools));
        let mut cursor = LineCursor::new(line)?;
        let (mut equipped, mut instructed) = (false, false);
        cursor.object(|cursor, key| {
            if key == field {
                if !self.roles.is_empty() {
                    return None;
                }
                cursor.array(|cursor| self.message(|entry| cursor.object(entry)))
            } else if !shape.wants(key) {
                self.has_unread |= shape.may_leave_out(key);
                cursor.skip()
            } else if cursor.null() {
                // Of equal keys the last one counts.
                let other =
                    if key == tools { equipped } else { key == TEMPLATE_KWARGS && instructed };
                (!other).then_some(())
            } else if key == tools && !std::mem::replace(&mut equipped, true) {
                self.read_tools(cursor)
            } else if key == TEMPLATE_KWARGS && !std::mem::replace(&mut instructed, true) {
                self.read_kwargs(cursor)
            } else {
                None
            }
        })?;
        if cursor.is_at_end() { self.close() } else { None }
    }

    fn columns(&mut self, batch: &RecordBatch, row: usize, shape: &Shape) -> Option<()> {
        let field = shape.field(Part::Messages);
        let columns = batch.schema_ref().fields();
        for (number, (column, array)) in columns.iter().zip(batch.columns()).enumerate() {
            if !shape.wants(column.name()) {
                self.has_unread |= shape.may_leave_out(column.name());
                continue;
            }
            // Two columns of one name are ambiguous.
            if columns[..number].iter().any(|before| before.name() == column.name()) {
                return None;
            }
            let mut item = ArrayItem { field: column, array, at: row };
            let is_other = column.name() != field;
            if is_other && item.null() {
                continue;
            }
            let (messages, places) = item.list().filter(|_| !is_other && self.roles.is_empty())?;
            let messages = messages.as_struct_opt()?;
            for at in places {
                if messages.is_null(at) {
                    return None;
                }
                let mut entries = messages.fields().iter().zip(messages.columns());
                self.message(|entry| {
                    entries.try_for_each(|(field, array)| {
                        entry(&mut ArrayItem { field, array, at }, field.name())
                    })
                })?;
            }
        }
        self.close()
    }

    /// Ends a conversation after its last message.
    fn close(&mut self) -> Option<()> {
        if self.flagged {
            self.outline.push(FLAGGED);
        }
        (1..=MOST_MESSAGES).contains(&self.roles.len()).then_some(())
    }

    fn read_tools(&mut self, cursor: &mut LineCursor<'_>) -> Option<()> {
        let known = self.tools.as_ref().filter(|(text, ..)| cursor.written(text));
        let (tools, bytes) = if let Some((text, tools, _)) = known {
            (tools.clone(), text.len())
        } else {
            let (value, text) = cursor.value(IN_RECORD)?;
            let value = match value {
                Json::String(text) if text.trim().is_empty() => return Some(()),
                Json::String(text) => json::parse(text.as_bytes()).ok()?,
                other => other,
            };
            if value == Json::Null {
                return Some(());
            }
            // A text that ends with a bracket or a quote is a complete value wherever it stands.
            self.tools = Some((text.to_owned(), value.clone(), OnceCell::new()));
            (value, text.len())
        };
        self.add_tools(tools, bytes)
    }

    fn read_kwargs(&mut self, cursor: &mut LineCursor<'_>) -> Option<()> {
        let (value, text) = cursor.value(IN_RECORD)?;
        if !matches!(value, Json::Map(_)) {
            return None;
        }
        self.kwargs = content_hash::of_kwargs(&value);
        self.add_kwargs(text.as_bytes())
    }

    /// Reads a message. `each` calls its argument with every value in it, and the key.
    fn message<'l, P: ValueAccess<'l>>(
        &mut self,
        each: impl FnOnce(&mut dyn FnMut(&mut P, &str) -> Option<()>) -> Option<()>,
    ) -> Option<()> {
        let message = self.roles.len();
        let begin = self.ranges.len();
        // The places of the role in the outline, and of the keys `from` and `value`.
        let (mut role, mut from, mut value) = (None, None, None);
        let (mut trained, mut weight) = ([None, None, None], None);
        let mut seen = [0_u64; MOST_NAMES / 64 + 1];
        each(&mut |place, word| {
            let key = self.name(word)?;
            let (at, bit) = (usize::from(key) / 64, 1 << (key % 64));
            if seen[at] & bit != 0 {
                return None;
            }
            seen[at] |= bit;
            let at = self.outline.len();
            match key {
                ROLE => role = Some(at),
                FROM => from = Some(at),
                VALUE => value = Some(at),
                _ => {}
            }
            let flag = if word == WEIGHT {
                Some(&mut weight)
            } else {
                let flag = TRAINED.iter().position(|known| *known == word);
                flag.map(|flag| &mut trained[flag])
            };
            self.flagged |= flag.is_some();
            if matches!(key, ROLE | FROM) {
                let name = self.name(place.word()?)?;
                self.outline.extend([key, name]);
            } else if place.null() {
                // Templates do not see keys whose value is null.
            } else if place.is_text()? {
                if flag.is_some() {
                    return None;
                }
                let start = self.decoded.len();
                place.text(&mut self.decoded)?;
                self.add_text(message, key, start);
            } else {
                let (found, bytes) = place.value(IN_MESSAGE)?;
                if matches!(key, CONTENT | VALUE) {
                    check_content(&found, "", false).ok()?;
                }
                if let Some(flag) = flag {
                    *flag = Some(found.clone());
                }
                self.add_value(message, key, found, bytes);
            }
            Some(())
        })?;
        let role = match (role, from, value) {
            (Some(role), None, _) => role,
            (None, Some(from), Some(value)) if seen[0] & 1 << CONTENT == 0 => {
                self.rename(from, value, begin)?;
                from
            }
            _ => return None,
        };
        let role = self.outline[role + 1];
        let speaks = is_assistant(self.name_of(role));
        let trained = trained.each_ref().map(Option::as_ref);
        self.weights.push(flags::own(trained, weight.as_ref(), speaks, "").ok()?);
        self.roles.push(role);
        self.outline.push(END);
        Some(())
    }

    /// Renames `from` and `value`, at these places in the outline, to a role and a content.
    fn rename(&mut self, from: usize, value: usize, begin: usize) -> Option<()> {
        let name = self.name_of(self.outline[from + 1]);
        let known = ROLES.iter().find(|(known, _)| *known == name && name != FUNCTION_CALL);
        let role = self.name(known?.1)?;
        let (_, key) = self.places[begin..].iter_mut().find(|(_, key)| *key == VALUE)?;
        *key = CONTENT;
        self.outline[from..from + 2].copy_from_slice(&[ROLE, role]);
        self.outline[value] = CONTENT;
        Some(())
    }

    /// The number of a name, new or known.
    fn name(&mut self, name: &str) -> Option<u8> {
        let known = self.names.0.iter().position(|known| **known == *name);
        let at = known.unwrap_or(self.names.0.len());
        if known.is_none() {
            if at == MOST_NAMES || name.len() > LONGEST_NAME {
                return None;
            }
            self.names.0.push(name.into());
        }
        u8::try_from(at + 1).ok()
    }
}

/// The bytes of a value in an outline: its type, and the number of items of a list.
fn kind(value: &Json) -> [u8; 2] {
    match value {
        Json::Null => [0, 0],
        Json::Bool(_) => [1, 0],
        Json::Int(_) | Json::BigInt(_) => [2, 0],
        Json::Float(_) => [3, 0],
        Json::String(_) => [4, 0],
        Json::List(items) => [5, count(items)],
        Json::Map(_) => [6, 0],
    }
}

/// The number of items of a list, capped to a byte.
fn count(items: &[Json]) -> u8 {
    u8::try_from(items.len()).unwrap_or(u8::MAX)
}
