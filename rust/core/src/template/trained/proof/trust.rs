//! Tries whether the cheaper search finds the turns of conversations of one [form](super::forms::TurnForms).

use std::borrow::Cow;
use std::sync::PoisonError;

use fastpack_template::json::Map;

use super::made_up::TrainedPlace;
use crate::record::Conversation;
use crate::template::chat::ChatTemplate;
use crate::template::trained::learned::derive;
use crate::template::trained::rule;

/// Most forms that are kept. The turns of conversations of others are searched for by the definition.
const MOST_FORMS: usize = 1 << 14;

impl ChatTemplate {
    /// True if the cheaper search finds the turns of such a conversation, and no other text is right for them.
    pub(crate) fn trusts_marks(
        &self,
        conversation: &Conversation,
        messages: &[Cow<'_, Map>],
    ) -> bool {
        let made = self.made_up(conversation, messages, |_| TrainedPlace::Context);
        let tried = || self.forms().tried.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&known) = tried().get(&*made.key) {
            return known;
        }
        let agrees = self.marks_agree(&made.conversation).unwrap_or(false);
        let mut tried = tried();
        if tried.len() < MOST_FORMS {
            tried.insert(made.key.into(), agrees);
        }
        agrees
    }

    /// True if the cheaper search finds the turns of the definition; `None` if one of them fails.
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
