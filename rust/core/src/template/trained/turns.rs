//! Where a rendered conversation may be cut: after the turns of the assistant.

use std::ops::Range;

use super::derive;
use crate::record::Conversation;
use crate::template::chat::ChatTemplate;
use crate::template::conversation::prepared;

impl ChatTemplate {
    /// The places in `text`, ascending, at which a turn of the assistant is over: its end, and that of the white space
    /// behind it.
    ///
    /// `spans` are what [`ChatTemplate::render_with_spans`] found. There are no such places where they are not one for
    /// each turn, and none behind which nothing follows.
    pub fn turn_ends(
        &self,
        conversation: &Conversation,
        text: &str,
        spans: &[Range<usize>],
    ) -> Vec<usize> {
        let messages = prepared(conversation);
        let turns = messages.iter().filter(|message| derive::is_assistant(message)).count();
        turn_ends(text, spans, turns)
    }
}

/// The same where the assistant speaks in so many messages.
pub(in crate::template) fn turn_ends(
    text: &str,
    spans: &[Range<usize>],
    turns: usize,
) -> Vec<usize> {
    if spans.len() != turns {
        return Vec::new();
    }
    let ends = spans.iter().flat_map(|span| {
        let rest = &text[span.end..];
        [span.end, span.end + rest.len() - rest.trim_start().len()]
    });
    let mut ends: Vec<usize> = ends.filter(|&end| end < text.len()).collect();
    ends.dedup();
    ends
}
