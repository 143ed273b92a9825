//! [`Unprinted`]: the texts and values of a conversation that a program does not print.

use std::sync::Arc;

use fastpack_template::ReplayInput;
use fastpack_template::json::Json;

use crate::record::ReplayReader;
use crate::template::conversation::left_out;
use crate::template::conversation::left_out::LeftOut;

/// A text or a value that a program does not print, by its number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unprinted {
    Text(usize),
    Value(usize),
    /// A part of a value, by its number.
    Part(usize, usize),
}

impl Unprinted {
    /// The part of a value that it is, if it is one.
    fn part(self, input: ReplayInput<'_>) -> Option<&Json> {
        match self {
            Self::Part(value, part) => match &input.values[value] {
                Json::List(parts) => parts.get(part),
                _ => None,
            },
            _ => None,
        }
    }

    /// Adds its field if it holds a text that is not blank; of a part, `field` is the role.
    pub(super) fn note(self, field: &Arc<str>, input: ReplayInput<'_>, fields: &mut LeftOut) {
        if self.has_text(input) {
            match self.part(input) {
                Some(part) => left_out::add(fields, &left_out::part_name(part, field)),
                None => left_out::add(fields, field),
            }
        }
    }

    /// True if it holds a text that is not blank.
    fn has_text(self, input: ReplayInput<'_>) -> bool {
        match self {
            Self::Text(text) => !input.source[input.texts[text].clone()].trim().is_empty(),
            Self::Value(value) => left_out::has_text(&input.values[value]),
            Self::Part(..) => self.part(input).is_some_and(left_out::part_has_text),
        }
    }
}

/// The number of the text or value under a key of a message, or of the tools, and the name of its field.
pub(super) fn numbered(
    reader: &ReplayReader,
    message: Option<usize>,
    key: &str,
    part: Option<usize>,
) -> Option<(Unprinted, Arc<str>)> {
    let Some(message) = message else {
        let tools = reader.value_places().position(|place| place.is_none())?;
        return Some((Unprinted::Value(tools), left_out::TOOLS.into()));
    };
    let role = reader.roles().nth(message)?;
    if let Some(part) = part {
        let value = reader.value_places().position(|place| place == Some((message, key)))?;
        return Some((Unprinted::Part(value, part), role.into()));
    }
    let field = left_out::field_name(key, role);
    let text = reader.places().position(|place| place == (message, key)).map(Unprinted::Text);
    let value = || reader.value_places().position(|place| place == Some((message, key)));
    Some((text.or_else(|| value().map(Unprinted::Value))?, field))
}
