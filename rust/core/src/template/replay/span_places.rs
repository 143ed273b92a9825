//! The places of the assistant's spans in the output of a program, and the inputs that a program is recorded of.

use std::borrow::Cow;
use std::ops::Range;

use fastpack_template::json::{Json, Map};
use fastpack_template::{Printed, Program, ProgramBuffers, ReplayInput, TraceInput};

use crate::record::{Conversation, ReplayReader, is_assistant};
use crate::template::chat::ChatTemplate;
use crate::template::trained::turn_markup::marked_contents::{ContentMarks, MARKED, MarkPlace};
use crate::template::trained::turn_markup::markup::TurnMarkup;
use crate::template::trained::turn_markup::spans_by_markup;
use crate::template::trained::turn_markup::spans_by_markup::{MessageFacts, is_text};

/// A template, and the markup of its turns if it is needed and could be learned.
#[derive(Clone, Copy, Debug)]
pub(super) struct MarkedTurns<'m> {
    pub(super) template: &'m ChatTemplate,
    pub(super) turn: Option<&'m TurnMarkup>,
}

impl MarkedTurns<'_> {
    /// Derives the assistant's spans in `text`, the output of `program`, from the places of the messages'
    /// texts. `None` if they cannot be found.
    pub(super) fn derived(
        self,
        reader: &ReplayReader,
        program: &Program,
        text: &str,
        buffers: &mut ProgramBuffers<'_>,
        places: &mut Vec<MarkPlace>,
    ) -> Option<Vec<Range<usize>>> {
        let facts = |role| MessageFacts { by_assistant: is_assistant(role), is_text: false };
        let mut messages: Vec<MessageFacts> = reader.roles().map(facts).collect();
        if !messages.iter().any(|message| message.by_assistant) {
            return Some(Vec::new());
        }
        let texts = reader.places().map(|place| (place, true));
        let values = reader.value_places().zip(reader.values());
        let values = values.filter_map(|(place, value)| Some((place?, is_text(value))));
        for ((message, _), is_text) in texts.chain(values).filter(|((_, key), _)| *key == "content")
        {
            messages[message].is_text = is_text;
        }
        let keys = reader.places().chain(reader.value_places().flatten());
        for (message, _) in keys.filter(|(_, key)| *key == "tool_calls") {
            messages[message].is_text = false;
        }
        let turn = self.turn?;
        if program.is_blind_to_marks() {
            program.places(reader.decoded(), buffers, |text, range| {
                if let Some((message, key)) = reader.places().nth(text)
                    && MARKED.contains(&key)
                {
                    let ends = [(range.start, false), (range.end, true)];
                    places.extend(ends.map(|(at, is_after)| MarkPlace { message, at, is_after }));
                }
            });
        } else {
            let marks = ContentMarks::absent_from([text], messages.len())?;
            let (plain, found) = marks.unmark(&with_marks(reader, marks, program, buffers)?);
            if plain != text {
                return None;
            }
            *places = found;
        }
        spans_by_markup::from_places(self.template, turn, text, &messages, places)
    }
}

/// The output of `program` for the conversation with marks; `None` if the program does not serve it.
fn with_marks(
    reader: &ReplayReader,
    marks: ContentMarks,
    program: &Program,
    buffers: &mut ProgramBuffers<'_>,
) -> Option<String> {
    let mut source = String::with_capacity(reader.decoded().len());
    let mut texts = Vec::with_capacity(reader.ranges().len());
    for ((message, key), range) in reader.places().zip(reader.ranges()) {
        let plain = Json::String(reader.decoded()[range.clone()].into());
        let Json::String(text) = marks.marked(key, &plain, message)? else { return None };
        let start = source.len();
        source.push_str(&text);
        texts.push(start..source.len());
    }
    let values =
        reader.values().iter().zip(reader.value_places()).map(|(value, place)| match place {
            Some((message, key)) => marks.marked(key, value, message),
            None => Some(value.clone()),
        });
    let values: Vec<Json> = values.collect::<Option<_>>()?;
    let input = ReplayInput { source: &source, texts: &texts, values: &values };
    if !program.serves(input, buffers) {
        return None;
    }
    let mut printed = Printed::default();
    program.print(&source, buffers, &mut printed).ok()?;
    Some(printed.text)
}

/// The texts and values of the parsed conversation, for a trace. `None` if they differ from those of `reader`.
pub(super) fn trace_input<'r>(
    reader: &ReplayReader,
    conversation: &'r Conversation,
    prepared: &'r [Cow<'_, Map>],
) -> Option<TraceInput<'r>> {
    let mut input = TraceInput::default();
    for ((message, key), range) in reader.places().zip(reader.ranges()) {
        let Json::String(text) = prepared.get(message)?.get(key)? else { return None };
        if **text != reader.decoded()[range.clone()] {
            return None;
        }
        input.texts.push(text);
    }
    input.messages = prepared.iter().map(|message| (&**message, Vec::new())).collect();
    for (number, (place, taken)) in reader.value_places().zip(reader.values()).enumerate() {
        let value = match place {
            Some((message, key)) => {
                let (key, value) = prepared.get(message)?.get_key_value(key)?;
                input.messages[message].1.push((key, number));
                value
            }
            None => conversation.tools.as_ref()?,
        };
        if value != taken {
            return None;
        }
        input.values.push(value);
    }
    let tools = reader.value_places().any(|place| place.is_none());
    (prepared.len() == reader.roles().len() && tools == conversation.tools.is_some())
        .then_some(input)
}
