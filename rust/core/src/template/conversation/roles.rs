//! Refuses misspelt roles. Most templates render any role, but the text of an unknown role would never be
//! trained.

use std::sync::Arc;

use crate::record::Fault;
use crate::report::ledger::Reason;
use crate::template::chat::ChatTemplate;
use fastpack_template::json::{Json, Map};

/// The roles that templates usually know.
const USUAL: [&str; 5] = ["user", "assistant", "system", "tool", "developer"];

/// Roles of other formats, each with the usual role that it means.
const ELSEWHERE: [(&str, &str); 16] = [
    ("human", "user"),
    ("prompter", "user"),
    ("question", "user"),
    ("gpt", "assistant"),
    ("chatgpt", "assistant"),
    ("bing", "assistant"),
    ("bard", "assistant"),
    ("claude", "assistant"),
    ("llm", "assistant"),
    ("answer", "assistant"),
    ("bot", "assistant"),
    (MODEL, "assistant"),
    ("chatbot", "assistant"),
    ("ai", "assistant"),
    ("observation", "tool"),
    ("function_call", "assistant"),
];

/// The role of the assistant in Gemini's format, and in some templates.
const MODEL: &str = "model";

/// Letters of a usual role for each wrong letter that is allowed.
const LETTERS_A_SLIP: usize = 4;

impl ChatTemplate {
    /// Refuses a misspelt role (`assistent`), or a role of another format (`gpt`), unless the template
    /// mentions it.
    pub(crate) fn check_roles(&self, messages: &[Arc<Map>]) -> Result<(), Fault> {
        for (at, message) in messages.iter().enumerate() {
            let Some(Json::String(role)) = message.get("role") else { continue };
            if USUAL.contains(&&**role) || self.speaks_of(role) || self.prompts_for(role) {
                continue;
            }
            if let Some(meant) = meant(role) {
                let message = format!(
                    "message {at} has the role `{role}`, of which chat template `{}` says nothing; `{meant}` is meant? a `map` can rename it",
                    self.name
                );
                return Err(Fault::new(Reason::UnknownRole, message));
            }
        }
        Ok(())
    }

    /// A role of the messages that neither templates usually know nor this one mentions, with the number of its message.
    pub(super) fn unknown_role<'m>(&self, messages: &'m [Arc<Map>]) -> Option<(usize, &'m str)> {
        messages.iter().enumerate().find_map(|(at, message)| match message.get("role") {
            Some(Json::String(role)) if !USUAL.contains(&&**role) && !self.speaks_of(role) => {
                Some((at, &**role))
            }
            _ => None,
        })
    }

    /// True if the generation prompt asks for the role `model`, as Gemma's do, without a comparison with it.
    fn prompts_for(&self, role: &str) -> bool {
        role == MODEL && self.prompts_with(MODEL)
    }

    pub(super) fn speaks_of(&self, role: &str) -> bool {
        self.source.contains(&format!("'{role}'")) || self.source.contains(&format!("\"{role}\""))
    }
}

/// The usual role that `role` stands for, by its name in another format or by its spelling.
fn meant(role: &str) -> Option<&'static str> {
    let plain = role.trim().to_lowercase();
    let key_of_another_format =
        ELSEWHERE.iter().find(|(name, _)| *name == plain).map(|(_, role)| *role);
    let mut close =
        USUAL.iter().filter(|usual| slips(&plain, usual) <= usual.len() / LETTERS_A_SLIP);
    key_of_another_format.or_else(|| close.next().copied())
}

/// The edit distance of two words: letters to insert, delete or change.
fn slips(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, wanted) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *wanted);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}
