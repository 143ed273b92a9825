//! What a template takes of messages beside texts.

use super::chat::ChatTemplate;
use super::conversation::prepared;
use crate::record::{Conversation, Takes, parse_conversation};

/// A conversation whose contents are texts, and the same one whose contents are lists of parts.
const ASKED: [&str; 2] = [
    r#"{"messages": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]}"#,
    r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "one"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "two"}]}]}"#,
];

impl ChatTemplate {
    /// What the template takes of messages: which keys it speaks of, and what it makes of a conversation.
    pub fn takes(&self) -> Takes {
        let own = *self.takes.get_or_init(|| Takes {
            calls: self.source.contains("tool_calls"),
            parts: self.takes_parts(),
        });
        self.tool_use.as_ref().map_or(own, |template| {
            let other = template.takes();
            Takes { calls: own.calls || other.calls, parts: own.parts && other.parts }
        })
    }

    /// Whether what the template writes for a conversation of two turns ends with this, white space aside.
    pub fn ends_with(&self, end: &str) -> bool {
        let asked = parse_conversation(ASKED[0].as_bytes());
        let rendered = asked.ok().and_then(|asked| self.interpreted(&asked));
        rendered.is_some_and(|text| text.trim_end().ends_with(end))
    }

    /// Whether the template makes anything of contents that are lists, be it what Python prints of them, as transformers
    /// has it; yes where it is not fastpack that renders, or where it takes no such conversation at all.
    fn takes_parts(&self) -> bool {
        let [texts, parts] = ASKED.map(|asked| {
            parse_conversation(asked.as_bytes()).ok().and_then(|asked| self.interpreted(&asked))
        });
        self.outside.is_some() || texts.is_none() || parts.is_some()
    }

    /// What fastpack itself makes of a conversation, if it makes anything of it.
    fn interpreted(&self, conversation: &Conversation) -> Option<String> {
        let output = self.interpret(&prepared(conversation), conversation, None, None)?;
        Some(output.ok()?.text)
    }
}
