//! Finds the message features that a template supports besides texts: tool calls, and contents as lists of
//! parts.

use super::chat::ChatTemplate;
use super::conversation::prepared;
use crate::record::{Conversation, MessageForms, parse_conversation};

/// One conversation twice: with texts as contents, and with lists of parts.
const ASKED: [&str; 2] = [
    r#"{"messages": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]}"#,
    r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "one"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "two"}]}]}"#,
];

impl ChatTemplate {
    /// The message features that the template supports. It supports tool calls if its source mentions
    /// `tool_calls`, and lists of parts if it renders them.
    pub fn message_forms(&self) -> MessageForms {
        let own = *self.message_forms.get_or_init(|| MessageForms {
            calls: self.source.contains("tool_calls"),
            parts: self.takes_parts(),
        });
        self.tool_use.as_ref().map_or(own, |template| {
            let other = template.message_forms();
            MessageForms { calls: own.calls || other.calls, parts: own.parts && other.parts }
        })
    }

    /// Whether the render of a conversation of two messages ends with `end`, trailing whitespace aside.
    pub fn ends_with(&self, end: &str) -> bool {
        let asked = parse_conversation(ASKED[0].as_bytes());
        let rendered = asked.ok().and_then(|asked| self.interpreted(&asked));
        rendered.is_some_and(|text| text.trim_end().ends_with(end))
    }

    /// Whether the template renders contents that are lists of parts, even if it prints them as Python prints
    /// a list. Also true if `transformers` may render, or if the template does not render texts as contents
    /// either.
    fn takes_parts(&self) -> bool {
        let [texts, parts] = ASKED.map(|asked| {
            parse_conversation(asked.as_bytes()).ok().and_then(|asked| self.interpreted(&asked))
        });
        self.processes.is_some() || texts.is_none() || parts.is_some()
    }

    /// The text that the interpreter renders, if it can.
    fn interpreted(&self, conversation: &Conversation) -> Option<String> {
        let output = self.interpret(&prepared(conversation), conversation, None, None, false)?;
        Some(output.ok()?.text)
    }
}
