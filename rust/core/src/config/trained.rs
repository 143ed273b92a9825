//! [`TrainedTokens`]: the tokens that carry a label, by a word or by the parts of turns.

use serde::{Deserialize, Serialize};

use super::inputs::fields;
use super::option_words;
use crate::error::{Error, Result};

option_words! {
    /// The tokens that carry a label, in a word.
    #[non_exhaustive]
    pub enum TrainOn {
        /// The assistant's turns of a conversation, the answer to a request, and all of a text.
        Auto = "auto",
        /// All tokens.
        All = "all",
        /// The assistant's turns, and the answer to a request. A text is refused.
        Assistant = "assistant",
        /// The answer to a request. Conversations and texts are refused.
        Completion = "completion",
    }
}

/// The tokens that carry a label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TrainedTokens {
    /// In a word.
    Named(TrainOn),
    /// Roles and parts of turns.
    Parts(TurnParts),
}

impl TrainedTokens {
    /// The parts of turns that are trained. Those of [`TrainOn::Assistant`] are this word.
    pub fn of(parts: TurnParts) -> Self {
        if parts == TurnParts::default() {
            Self::Named(TrainOn::Assistant)
        } else {
            Self::Parts(parts)
        }
    }

    /// The word that comes nearest.
    pub fn name(&self) -> TrainOn {
        match self {
            Self::Named(name) => *name,
            Self::Parts(_) => TrainOn::Assistant,
        }
    }

    /// The parts of turns, unless they are those of a word.
    pub fn parts(&self) -> Option<&TurnParts> {
        match self {
            Self::Named(_) => None,
            Self::Parts(parts) => Some(parts),
        }
    }
}

/// The roles whose messages are trained, and the parts of their turns that are not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches of one option")]
pub struct TurnParts {
    /// The roles.
    pub roles: Vec<String>,
    /// True if the reasoning is context.
    pub mask_reasoning_content: bool,
    /// True if the calls of tools are context.
    pub mask_tool_calls: bool,
    /// True if the generation prompt before a turn is context.
    pub mask_generation_prompt: bool,
    /// True if the reasoning before the last message of a user is removed.
    pub drop_history_reasoning_content: bool,
}

impl Default for TurnParts {
    fn default() -> Self {
        Self {
            roles: vec!["assistant".to_owned()],
            mask_reasoning_content: false,
            mask_tool_calls: false,
            mask_generation_prompt: true,
            drop_history_reasoning_content: false,
        }
    }
}

impl TurnParts {
    pub(super) fn validate(&self) -> Result<()> {
        let is_named = |role: &String| !role.trim().is_empty();
        if self.roles.is_empty() || !self.roles.iter().all(is_named) {
            return Err(Error::option("train_on", "must name the roles that are trained"));
        }
        Ok(())
    }

    /// True if messages of a role are trained. The assistant has several names.
    pub fn trains(&self, role: &str) -> bool {
        let is_of_assistant = is_assistant(role);
        self.roles.iter().any(|trained| trained == role || is_of_assistant && is_assistant(trained))
    }

    /// True if messages of other roles than the assistant's are trained.
    pub fn trains_others(&self) -> bool {
        self.roles.iter().any(|role| !is_assistant(role))
    }
}

fn is_assistant(role: &str) -> bool {
    fields::ASSISTANT.contains(&role)
}
