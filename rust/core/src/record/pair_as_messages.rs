//! [`pair_as_messages`]: a request with its answer as a conversation.

use std::sync::Arc;

use fastpack_template::json::{Json, Map};

use super::kinds::{Conversation, Pair};
use super::parsing::fault::Fault;
use super::shapes::{messages, pictures};

/// The messages of a pair with its history, after the messages of the examples. Those `trains_examples` leaves as they
/// are; otherwise their answers are context.
///
/// # Errors
///
/// The fault of pictures without places in the texts.
pub fn pair_as_messages(
    pair: &Pair,
    examples: &[(String, String)],
    trains_examples: bool,
) -> Result<Conversation, Fault> {
    let message =
        |role: &str, text: &str| Arc::new(messages::message(role, Json::String(Arc::from(text))));
    let request = match &pair.input {
        Some(input) => format!("{}\n{input}", pair.request),
        None => pair.request.clone(),
    };
    let mut list: Vec<Arc<Map>> = Vec::with_capacity(2 * examples.len() + 3);
    list.extend(pair.system.as_ref().map(|system| message("system", system)));
    let mut weights = vec![None; list.len()];
    for (request, answer) in examples {
        list.extend([message("user", request), message("assistant", answer)]);
        weights.extend([None, Some(0.0).filter(|_| !trains_examples)]);
    }
    match &pair.history_weights {
        Some(own) => weights.extend(own),
        None => weights.resize(weights.len() + pair.history.len(), None),
    }
    list.extend(pair.history.iter().cloned());
    list.push(message("user", &request));
    let prompt = Some(list.len());
    list.push(message("assistant", &pair.answer));
    weights.resize(list.len(), None);
    let weights = Some(weights).filter(|weights| weights.iter().any(Option::is_some));
    let mut conversation = Conversation {
        messages: list,
        tools: None,
        template_kwargs: Map::default(),
        weights,
        prompt,
        pictures: Vec::new(),
    };
    if let Some(pictures) = &pair.pictures {
        pictures::attach(&mut conversation, Some(pictures.clone()))?;
    }
    Ok(conversation)
}
