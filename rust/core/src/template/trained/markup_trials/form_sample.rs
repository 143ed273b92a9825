//! [`FormSample`]: the conversation with made-up words that stands for all of its [form](super::turn_forms::TurnForms).

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use fastpack_template::json::{Json, Map};

use super::message_contexts::MessageContext;
use super::turn_forms::{WORDS, numbers_without_repeats};
use crate::record::{Conversation, write_json};
use crate::template::chat::ChatTemplate;
use crate::template::conversation::{is_assistant, tools};

/// The part of a message in training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrainedPlace {
    /// It is not trained.
    Context,
    /// It is of the prompt that the others complete.
    Prompt,
    /// It is a turn of the assistant that is trained.
    Trained,
}

/// A conversation with made-up words.
#[derive(Clone, Debug)]
pub(crate) struct FormSample {
    /// The key of the form, a hash, without the places of its messages.
    pub(crate) form: Vec<u8>,
    /// The contexts of its messages, once they are asked for; `None` if there are too many kinds of messages.
    pub(super) contexts: OnceLock<Option<Vec<MessageContext>>>,
    /// The part of the key that is of no message: keyword arguments and tools.
    pub(crate) around: Vec<u8>,
    pub(crate) conversation: Conversation,
    /// The places of its messages.
    pub(crate) places: Vec<TrainedPlace>,
    /// The indexes of the messages that they stand for.
    pub(crate) numbers: Vec<usize>,
}

impl FormSample {
    /// A conversation whose words stay, each message of which stands for itself in its place.
    pub(crate) fn of_itself(conversation: Conversation, places: Vec<TrainedPlace>) -> Self {
        let numbers = (0..places.len()).collect();
        let (form, contexts, around) = Default::default();
        Self { form, contexts, around, conversation, places, numbers }
    }

    /// True if all messages of the assistant are trained, and none is of a prompt.
    pub(crate) fn are_all_trained(&self) -> bool {
        let mut placed = self.conversation.messages.iter().zip(&self.places);
        placed.all(|(message, place)| match place {
            TrainedPlace::Trained => true,
            TrainedPlace::Context => !is_assistant(message),
            TrainedPlace::Prompt => false,
        })
    }
}

impl ChatTemplate {
    /// The conversation with made-up words for a conversation whose messages are prepared, in these places.
    pub(crate) fn form_sample(
        &self,
        conversation: &Conversation,
        messages: &[Cow<'_, Map>],
        place: impl Fn(usize) -> TrainedPlace,
    ) -> FormSample {
        let forms = self.forms();
        let samples = messages.iter().enumerate();
        let samples = samples.map(|(at, message)| (Arc::new(forms.message(message)), place(at)));
        let samples: Vec<(Arc<Map>, TrainedPlace)> = samples.collect();
        let numbers = numbers_without_repeats(&samples);
        let places: Vec<TrainedPlace> = numbers.iter().map(|number| samples[*number].1).collect();
        let messages: Vec<Arc<Map>> =
            numbers.iter().map(|number| Arc::clone(&samples[*number].0)).collect();
        let mut form = Vec::new();
        let listed = messages.iter().map(|message| Json::Map(Arc::clone(message)));
        write_json(&Json::List(Arc::new(listed.collect())), &mut form);
        let tools = tools(conversation).map(sample_tools);
        let mut around = vec![match &tools {
            None => b'-',
            Some(Json::List(tools)) if tools.is_empty() => b'0',
            Some(_) => b'1',
        }];
        write_json(&Json::Map(Arc::new(conversation.template_kwargs.clone())), &mut around);
        form.extend_from_slice(&around);
        // Forms of long conversations are long, and many are kept.
        let form = blake3::hash(&form).as_bytes().to_vec();
        let prompt = places.iter().filter(|place| **place == TrainedPlace::Prompt).count();
        let conversation = Conversation {
            messages,
            tools,
            template_kwargs: conversation.template_kwargs.clone(),
            weights: None,
            prompt: (prompt > 0).then_some(prompt),
            pictures: Vec::new(),
        };
        FormSample { form, contexts: OnceLock::new(), around, conversation, places, numbers }
    }
}

/// One made-up tool in place of all; none in place of none.
fn sample_tools(tools: &Json) -> Json {
    let text = |text: &str| Json::String(text.into());
    let map = |entries: Vec<(&str, Json)>| {
        let entries = entries.into_iter().map(|(key, value)| (Arc::from(key), value));
        Json::Map(Arc::new(entries.collect()))
    };
    match tools {
        Json::List(tools) if tools.is_empty() => Json::List(Arc::default()),
        _ => {
            let q = map(vec![("type", text("string")), ("description", text(WORDS))]);
            let parameters = map(vec![
                ("type", text("object")),
                ("properties", map(vec![("q", q)])),
                ("required", Json::List(Arc::new(vec![text("q")]))),
            ]);
            let function = map(vec![
                ("name", text(WORDS)),
                ("description", text(WORDS)),
                ("parameters", parameters),
            ]);
            let tool = map(vec![("type", text("function")), ("function", function)]);
            Json::List(Arc::new(vec![tool]))
        }
    }
}
