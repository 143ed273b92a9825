//! [`Skim`]: what a template needs of a conversation, read from its line without making values of it.
//!
//! Most lines of a file hold messages of texts alone. Of such a line the texts are copied into one buffer, end to
//! end, and all else is put into a few bytes, the [`Skim::outline`]: conversations of one outline differ in nothing
//! but their texts. Any other line, good or bad, is left to [`super::read`].

use std::ops::Range;

use super::cursor::Cursor;
use super::flags::{TRAIN, WEIGHT};
use super::messages::{FUNCTION_CALL, ROLES};
use super::shape::Shape;
use crate::config::{Part, ShapeName};

/// Messages that are skimmed at most: longer conversations are too rare for their outlines to come again.
const MOST_MESSAGES: usize = 200;

/// Names of keys and roles that are told apart, in a byte each, and the longest of them.
const MOST_NAMES: usize = 200;
const LONGEST_NAME: usize = 64;

/// Bytes of texts that are kept for the next line.
const KEPT: usize = 1 << 22;

/// The names that the rules below know, by their numbers.
const NAMES: [&str; 4] = ["role", "content", "from", "value"];
const ROLE: u8 = 1;
const CONTENT: u8 = 2;
const FROM: u8 = 3;
const VALUE: u8 = 4;

/// What stands between messages in an outline.
const END: u8 = 0;

/// The texts of one conversation after the other, each in the memory of the one before.
#[derive(Debug)]
pub struct Skim {
    names: Vec<Box<str>>,
    outline: Vec<u8>,
    /// The name of each message's role.
    roles: Vec<u8>,
    /// The message and the key of each text.
    places: Vec<(usize, u8)>,
    /// Where it stands in `decoded`.
    ranges: Vec<Range<usize>>,
    decoded: String,
}

impl Default for Skim {
    fn default() -> Self {
        Self {
            names: NAMES.map(Box::from).into(),
            outline: Vec::new(),
            roles: Vec::new(),
            places: Vec::new(),
            ranges: Vec::new(),
            decoded: String::new(),
        }
    }
}

impl Skim {
    /// Reads a conversation of this shape; `false` where that takes more than skimming.
    pub fn read(&mut self, line: &[u8], shape: &Shape) -> bool {
        shape.name() == ShapeName::Conversations && self.conversation(line, shape).is_some()
    }

    /// What tells the conversation from others, but for its texts: number, keys and roles of the messages.
    ///
    /// Only outlines of the same `Skim` can be compared.
    pub fn outline(&self) -> &[u8] {
        &self.outline
    }

    /// The texts, end to end.
    pub fn decoded(&self) -> &str {
        &self.decoded
    }

    /// Where each text stands.
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }

    /// The message and the key of each text.
    pub fn places(&self) -> impl ExactSizeIterator<Item = (usize, &str)> + '_ {
        self.places.iter().map(|(message, key)| (*message, self.name_of(*key)))
    }

    /// The role of each message.
    pub fn roles(&self) -> impl ExactSizeIterator<Item = &str> + '_ {
        self.roles.iter().map(|role| self.name_of(*role))
    }

    fn name_of(&self, name: u8) -> &str {
        &self.names[usize::from(name - 1)]
    }

    fn conversation(&mut self, line: &[u8], shape: &Shape) -> Option<()> {
        self.outline.clear();
        self.roles.clear();
        self.places.clear();
        self.ranges.clear();
        self.decoded.clear();
        self.decoded.shrink_to(KEPT);
        let field = shape.field(Part::Messages);
        let mut cursor = Cursor::new(line)?;
        cursor.object(|cursor, key| {
            if key == field {
                if !self.roles.is_empty() {
                    return None;
                }
                cursor.array(|cursor| self.message(cursor))
            } else if shape.reads(key) {
                cursor.null().then_some(())
            } else {
                cursor.skip()
            }
        })?;
        (cursor.is_at_end() && (1..=MOST_MESSAGES).contains(&self.roles.len())).then_some(())
    }

    fn message(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        let message = self.roles.len();
        let begin = self.ranges.len();
        // Where in the outline the role stands, and the key of what is said.
        let (mut role, mut from, mut value) = (None, None, None);
        let mut seen = [0_u64; MOST_NAMES / 64 + 1];
        cursor.object(|cursor, key| {
            if matches!(key, TRAIN | WEIGHT) {
                return None;
            }
            let key = self.name(key)?;
            let (word, bit) = (usize::from(key) / 64, 1 << (key % 64));
            if seen[word] & bit != 0 {
                return None;
            }
            seen[word] |= bit;
            let at = self.outline.len();
            match key {
                ROLE => role = Some(at),
                FROM => from = Some(at),
                VALUE => value = Some(at),
                _ => {}
            }
            if matches!(key, ROLE | FROM) {
                let name = self.name(cursor.word()?)?;
                self.outline.extend([key, name]);
            } else if !cursor.null() {
                let start = self.decoded.len();
                cursor.text(&mut self.decoded)?;
                self.outline.push(key);
                self.places.push((message, key));
                self.ranges.push(start..self.decoded.len());
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
        self.roles.push(self.outline[role + 1]);
        self.outline.push(END);
        Some(())
    }

    /// Gives a message of `from` and `value`, which stand there in the outline, a role and a content.
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

    /// The number of a name, which is new or known.
    fn name(&mut self, name: &str) -> Option<u8> {
        let known = self.names.iter().position(|known| **known == *name);
        let at = known.unwrap_or(self.names.len());
        if known.is_none() {
            if at == MOST_NAMES || name.len() > LONGEST_NAME {
                return None;
            }
            self.names.push(name.into());
        }
        u8::try_from(at + 1).ok()
    }
}

/// Appends the text of a record of this shape to `out`; `false`, and nothing more, where that takes more than skimming.
pub fn skim_text(line: &[u8], shape: &Shape, out: &mut String) -> bool {
    let start = out.len();
    let done = shape.name() == ShapeName::Text && text(line, shape, out).is_some();
    let done = done && out.len() > start;
    if !done {
        out.truncate(start);
    }
    done
}

fn text(line: &[u8], shape: &Shape, out: &mut String) -> Option<()> {
    let field = shape.field(Part::Text);
    let mut cursor = Cursor::new(line)?;
    let mut found = false;
    cursor.object(|cursor, key| {
        if key != field {
            return if shape.reads(key) { cursor.null().then_some(()) } else { cursor.skip() };
        }
        if std::mem::replace(&mut found, true) {
            return None;
        }
        cursor.text(out)
    })?;
    (cursor.is_at_end() && found).then_some(())
}
