//! Names the message that a template does not take: its role is unknown, or its content is null, absent or an object.

use std::sync::Arc;

use crate::record::{Conversation, Fault};
use crate::report::ledger::Reason;
use crate::template::chat::ChatTemplate;
use fastpack_template::json::{Json, Map};

/// The key of the content of a message.
const CONTENT: &str = "content";

/// The most messages that are tried as the cause: each is a render, and a record may have thousands.
const TRIED: usize = 8;

/// The keys of the content of a message in other formats.
const ELSEWHERE: [&str; 2] = ["text", "value"];

impl ChatTemplate {
    /// Refuses a message without content that says something under a key of another format, unless the template mentions it.
    pub(crate) fn check_contents(&self, messages: &[Arc<Map>]) -> Result<(), Fault> {
        for (at, message) in messages.iter().enumerate() {
            if let Some(key) = key_of_another_format(message).filter(|key| !self.reads(key)) {
                let message = format!(
                    "message {at} has no `content` but a `{key}`, of which chat template `{}` says nothing; a `map` can \
                     rename it",
                    self.name
                );
                return Err(Fault::new(Reason::WrongType, message));
            }
        }
        Ok(())
    }

    /// The fault of a conversation that the template refused, with the message whose role or content may be the cause.
    pub fn explained(&self, fault: Fault, conversation: &Conversation) -> Fault {
        let Conversation { messages, .. } = conversation;
        if fault.reason != Reason::Template {
            return fault;
        }
        if self.takes_only_objects(conversation) {
            let message = format!(
                "{}; the arguments of its calls are JSON text, and the template takes objects: \
                 `chat_template.decode_arguments` makes them",
                fault.message
            );
            return Fault::new(fault.reason, message);
        }
        if let Some((at, role)) = self.unknown_role(messages) {
            let message = format!(
                "{}; message {at} has the role `{role}`, of which the template says nothing: a `map` can rename it",
                fault.message
            );
            return Fault::new(fault.reason, message);
        }
        let odd: Vec<usize> = (0..messages.len()).filter(|at| is_odd(&messages[*at])).collect();
        if odd.is_empty() {
            return fault;
        }
        // The conversation may have other faults too, which the template tells only without this one.
        let is_fault_without = |kept: Option<usize>| {
            let mut changed = conversation.clone();
            for &at in odd.iter().filter(|at| Some(**at) != kept) {
                let mut message = Map::clone(&changed.messages[at]);
                message.insert(CONTENT.into(), Json::String("".into()));
                changed.messages[at] = Arc::new(message);
            }
            self.render(&changed).is_err_and(|other| other.message == fault.message)
        };
        if is_fault_without(None) {
            return fault;
        }
        let mut tried = odd.iter().copied().take(TRIED);
        let cause = tried.find(|at| is_fault_without(Some(*at))).unwrap_or(odd[0]);
        self.not_taken(cause, &messages[cause])
    }

    /// The fault of a message whose content the template does not take.
    fn not_taken(&self, at: usize, message: &Map) -> Fault {
        let (has, remedy) = match (message.get(CONTENT), key_of_another_format(message)) {
            (None | Some(Json::Null), Some(key)) => {
                (format!("no `content` but a `{key}`"), "a `map` can rename it")
            }
            (None, None) => ("no `content`".to_owned(), EMPTY),
            (Some(Json::Null), None) => ("null as `content`".to_owned(), EMPTY),
            (Some(_), _) => ("an object as `content`".to_owned(), "a `map` can make a text of it"),
        };
        let message = format!(
            "message {at} has {has}, which chat template `{}` does not take; {remedy}",
            self.name
        );
        Fault::new(Reason::Template, message)
    }

    /// True if the template mentions a key of messages.
    fn reads(&self, key: &str) -> bool {
        self.speaks_of(key) || self.source.contains(&format!(".{key}"))
    }
}

/// The remedy of a message that says nothing.
const EMPTY: &str = "a `map` can make it an empty text, or leave the message out";

/// True if the content of a message is null, absent or an object.
fn is_odd(message: &Map) -> bool {
    matches!(message.get(CONTENT), None | Some(Json::Null | Json::Map(_)))
}

/// The key of another format under which a message without content says something.
fn key_of_another_format(message: &Map) -> Option<&'static str> {
    let is_empty = matches!(message.get(CONTENT), None | Some(Json::Null));
    let says = |key: &&str| matches!(message.get(*key), Some(Json::String(text)) if !text.trim().is_empty());
    ELSEWHERE.into_iter().find(says).filter(|_| is_empty)
}
