//! Tries whether the cheaper search finds the turns of conversations of one [form](super::forms::TurnForms).

use std::borrow::Cow;
use std::sync::{Arc, PoisonError};

use fastpack_template::json::{Json, Map};

use super::forms::{WORDS, without_repeats};
use super::{derive, rule};
use crate::record::{Conversation, write_json};
use crate::template::chat::ChatTemplate;
use crate::template::conversation::tools;

/// Most forms that are kept. The turns of conversations of others are searched for by the definition.
const MOST_FORMS: usize = 1 << 14;

impl ChatTemplate {
    /// Whether the cheaper search finds the turns of such a conversation, and no other text is right for them.
    pub(in crate::template) fn trusts_marks(
        &self,
        conversation: &Conversation,
        messages: &[Cow<'_, Map>],
    ) -> bool {
        let made: Vec<Json> = messages
            .iter()
            .map(|message| Json::Map(Arc::new(self.forms().message(message))))
            .collect();
        let made = Json::List(Arc::new(without_repeats(made)));
        let mut form = Vec::new();
        write_json(&made, &mut form);
        write_json(&Json::Map(Arc::new(conversation.template_kwargs.clone())), &mut form);
        let made_tools = tools(conversation).map(made_up_tools);
        form.push(match &made_tools {
            None => b'-',
            Some(Json::List(tools)) if tools.is_empty() => b'0',
            Some(_) => b'1',
        });
        let tried = || self.forms().tried.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&known) = tried().get(&*form) {
            return known;
        }
        let Json::List(made) = made else { return false };
        let made: Vec<Arc<Map>> = made
            .iter()
            .filter_map(|message| match message {
                Json::Map(message) => Some(Arc::clone(message)),
                _ => None,
            })
            .collect();
        let alike = Conversation {
            messages: made,
            tools: made_tools,
            template_kwargs: conversation.template_kwargs.clone(),
            weights: None,
            prompt: None,
        };
        let agrees = self.marks_agree(&alike).unwrap_or(false);
        let mut tried = tried();
        if tried.len() < MOST_FORMS {
            tried.insert(form.into(), agrees);
        }
        agrees
    }

    /// Whether the cheaper search finds the turns of the definition; `None` if one of them fails.
    fn marks_agree(&self, conversation: &Conversation) -> Option<bool> {
        let messages: Vec<Cow<'_, Map>> =
            conversation.messages.iter().map(|message| Cow::Borrowed(&**message)).collect();
        let text = self.run(&messages, conversation, None).ok()?.text;
        let spans = derive::from_marks(self, conversation, &messages, &text)?;
        let documents = rule::documents(self, conversation, &messages, &text, |_| true).ok()?;
        let [document] = &documents[..] else { return Some(false) };
        let own = document.turns.iter().map(|(_, span)| span);
        Some(document.text == text && own.eq(spans.iter().filter(|span| !span.is_empty())))
    }
}

/// One made-up tool in place of all; none in place of none.
fn made_up_tools(tools: &Json) -> Json {
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
