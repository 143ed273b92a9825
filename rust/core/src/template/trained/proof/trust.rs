//! Tries whether the cheaper search finds the turns of conversations of one [form](super::forms::TurnForms).

use std::borrow::Cow;
use std::sync::PoisonError;

use fastpack_template::json::Map;

use super::made_up::TrainedPlace;
use crate::record::Conversation;
use crate::template::chat::ChatTemplate;
use crate::template::trained::learned::derive;
use crate::template::trained::rule;
use crate::template::trained::rule::texts::TurnDocument;
use crate::template::trained::search_words::WordReplacer;

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
        if let Some(known) = self.known_trust(&made.form) {
            return known;
        }
        let (replaced, _) =
            WordReplacer::new(self.forms(), true).replace(&made.conversation.messages);
        let replaced = Conversation { messages: replaced, ..made.conversation };
        let agrees = self.marks_agree(&replaced).unwrap_or(false);
        self.keep_trust(made.form, agrees);
        agrees
    }

    /// True if conversations of a form are trusted; `None` if it was not tried.
    pub(in crate::template::trained) fn known_trust(&self, form: &[u8]) -> Option<bool> {
        let tried = self.forms().tried.lock().unwrap_or_else(PoisonError::into_inner);
        tried.get(form).copied()
    }

    /// Keeps the trust in conversations of a form.
    pub(in crate::template::trained) fn keep_trust(&self, form: Vec<u8>, agrees: bool) {
        let mut tried = self.forms().tried.lock().unwrap_or_else(PoisonError::into_inner);
        if tried.len() < MOST_FORMS {
            tried.insert(form.into(), agrees);
        }
    }

    /// True if the cheaper search finds the turns of the definition; `None` if one of them fails.
    fn marks_agree(&self, conversation: &Conversation) -> Option<bool> {
        let messages: Vec<Cow<'_, Map>> =
            conversation.messages.iter().map(|message| Cow::Borrowed(&**message)).collect();
        let text = self.run(&messages, conversation, None).ok()?.text;
        let documents = rule::documents(self, conversation, &messages, &text, |_| true).ok()?;
        Some(self.marks_find(conversation, &messages, &text, &documents))
    }

    /// True if the cheaper search finds the turns of `documents`, which are those of the definition, and `text`, the
    /// render of all messages, is the only one.
    pub(in crate::template::trained) fn marks_find(
        &self,
        conversation: &Conversation,
        messages: &[Cow<'_, Map>],
        text: &str,
        documents: &[TurnDocument],
    ) -> bool {
        let [document] = documents else { return false };
        if document.text != text {
            return false;
        }
        let spans = derive::from_marks(self, conversation, messages, text);
        spans.is_some_and(|spans| {
            let own = document.turns.iter().map(|(_, span)| span);
            own.eq(spans.iter().filter(|span| !span.is_empty()))
        })
    }
}
