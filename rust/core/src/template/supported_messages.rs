//! Finds the message features that a template supports besides texts.

use fastpack_template::FollowedParts;

use super::chat::ChatTemplate;
use super::conversation::prepared;
use crate::record::{Conversation, MessageForms, parse_conversation};

/// A conversation of two messages.
const TWO_MESSAGES: &str = r#"{"messages": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]}"#;

impl ChatTemplate {
    /// The message features that the template supports. It supports tool calls if its source mentions
    /// `tool_calls`.
    pub fn message_forms(&self) -> MessageForms {
        let serving = std::iter::once(self).chain(self.tool_use.as_deref());
        let calls = serving.into_iter().any(|it| it.source.contains("tool_calls"));
        MessageForms { calls, ..MessageForms::ALL }
    }

    /// True if the render of a conversation of two messages ends with `end`, trailing whitespace aside.
    pub fn ends_with(&self, end: &str) -> bool {
        let conversation = parse_conversation(TWO_MESSAGES.as_bytes());
        let rendered = conversation.ok().and_then(|conversation| self.interpreted(&conversation));
        rendered.is_some_and(|text| text.trim_end().ends_with(end))
    }

    /// The text that the interpreter renders, if it can.
    fn interpreted(&self, conversation: &Conversation) -> Option<String> {
        let output =
            self.interpret(&prepared(conversation), conversation, None, FollowedParts::Nothing)?;
        Some(output.ok()?.text)
    }
}
