//! [`TurnHistory`]: a conversation as the turns behind one message of a user see it.

use std::ops::Range;
use std::sync::Arc;

use fastpack_template::json::{Json, Map};

use super::rule::message_words::without_reasoning;
use crate::record::{Conversation, Fault};
use crate::template::chat::ChatTemplate;
use crate::template::conversation::is_assistant;

/// The conversation in the context of the turns after one user message: without the reasoning before that message.
pub(super) struct TurnHistory {
    pub(super) conversation: Conversation,
    /// The messages that see it so.
    pub(super) turns: Range<usize>,
    /// True if it lacks reasoning that the record has.
    pub(super) has_dropped: bool,
}

/// The conversation as its turns see it: all of it, unless the reasoning of earlier turns is dropped. Never empty.
///
/// Fails if the reasoning of a message cannot be told from its answer.
pub(super) fn histories(
    template: &ChatTemplate,
    conversation: &Conversation,
    drops: bool,
) -> Result<Vec<TurnHistory>, Fault> {
    let messages = &conversation.messages;
    let is_user = |message: &Map| matches!(message.get("role"), Some(Json::String(role)) if **role == *"user");
    let mut borders: Vec<usize> = vec![0];
    borders.extend((1..messages.len()).filter(|at| drops && is_user(&messages[*at])));
    borders.push(messages.len());
    let mut histories = Vec::new();
    for pair in borders.windows(2) {
        let turns = pair[0]..pair[1];
        // Messages without a turn behind them belong to the last turn's text.
        if turns.start > 0 && !turns.clone().any(|at| is_assistant(&messages[at])) {
            continue;
        }
        let mut history =
            TurnHistory { conversation: conversation.clone(), turns, has_dropped: false };
        let earlier = history.conversation.messages[..pair[0]].iter_mut().enumerate();
        for (at, message) in earlier.filter(|(_, message)| is_assistant(message)) {
            let left = without_reasoning(message, template.reasoning_marks());
            let left = left.ok_or_else(|| template.mixed(at))?;
            if left != **message {
                history.has_dropped = true;
                *message = Arc::new(left);
            }
        }
        histories.push(history);
    }
    Ok(histories)
}
