//! Finds the bytes at which a rendered conversation may be cut: the ends of the assistant's turns.

use std::ops::Range;

use crate::record::Conversation;
use crate::template::chat::ChatTemplate;
use crate::template::conversation::{is_assistant, prepared};

impl ChatTemplate {
    /// The bytes of `text`, ascending, at which the assistant's turns end. A turn gives two of them: its end,
    /// and the end of the whitespace after it.
    ///
    /// `spans` come from [`ChatTemplate::render_with_spans`]. The result is empty if there is not one span
    /// for each turn. The end of `text` is left out.
    pub fn turn_ends(
        &self,
        conversation: &Conversation,
        text: &str,
        spans: &[Range<usize>],
    ) -> Vec<usize> {
        let messages = prepared(conversation);
        let turns = messages.iter().filter(|message| is_assistant(message)).count();
        turn_ends(text, spans, turns)
    }
}

/// The bytes at which turns end, for a conversation in which the assistant has `turns` messages.
pub(crate) fn turn_ends(text: &str, spans: &[Range<usize>], turns: usize) -> Vec<usize> {
    if spans.len() == turns { ends_of_turns(text, spans.iter().cloned()) } else { Vec::new() }
}

/// The bytes at which a text may be cut, ascending: the ends of its turns, and the ends of the whitespace after them.
pub(crate) fn ends_of_turns(text: &str, spans: impl Iterator<Item = Range<usize>>) -> Vec<usize> {
    let ends = spans.flat_map(|span| {
        let rest = &text[span.end..];
        [span.end, span.end + rest.len() - rest.trim_start().len()]
    });
    let mut ends: Vec<usize> = ends.filter(|&end| end < text.len()).collect();
    ends.dedup();
    ends
}
