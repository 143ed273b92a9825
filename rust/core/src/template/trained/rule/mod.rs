//! The definition of the trained part of a conversation: of each turn, the text that the model has to generate there.
//!
//! Two renders define it: the messages before the turn with the generation prompt, and the messages through the turn. The text of
//! the second behind the first is trained, through the token at which generation stops. A template that writes earlier messages otherwise once others follow has
//! no single text that is right for all turns, so a conversation becomes one or several [documents](turn_documents::TurnDocument).
//! It takes four to six renders a turn. Where trials show that the cheaper way ([`marked_contents`](super::turn_markup::marked_contents)) finds the same,
//! that one is used ([`trial`](super::markup_trials::trial)).

pub(in crate::template) mod encoder_pool;
mod found_turns;
pub(in crate::template) mod masked_parts;
pub(in crate::template) mod message_words;
pub(in crate::template) mod reasoning_marks;
mod stand_in_messages;
pub(in crate::template) mod stop_tokens;
pub(in crate::template) mod turn_documents;
mod unprinted_calls;

pub(in crate::template) use found_turns::{
    FoundTexts, FoundTurn, documents, other_spans, spans_in_whole, trained, turns,
};
pub(in crate::template::trained) use stand_in_messages::without_calls;
