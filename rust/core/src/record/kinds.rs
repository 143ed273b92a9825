//! [`Record`]: what one line of data can be.

use std::sync::Arc;

use fastpack_template::json::{Map, Value};

use super::tokens::Tokens;

/// What one line of data means.
#[derive(Clone, Debug)]
pub enum Record {
    /// Messages for a chat template.
    Conversation(Conversation),
    /// A request and its answer, to be put into words.
    Pair(Pair),
    /// Text as it stands.
    Text(String),
    /// Ids.
    Tokens(Tokens),
}

/// Messages and what goes with them, as a chat template sees them.
#[derive(Clone, Debug)]
pub struct Conversation {
    /// The messages as they were read. Never empty.
    pub messages: Vec<Arc<Map>>,
    /// The tool schemas (a list of maps), or nothing where the record has none.
    pub tools: Option<Value>,
    /// The record's own `chat_template_kwargs`.
    pub template_kwargs: Map,
    /// The weight that each message gives itself, if any does.
    pub weights: Option<Vec<Option<f32>>>,
    /// How many of the messages are a prompt, which the others complete; nothing where the record does not say.
    pub prompt: Option<usize>,
}

/// A request, and the text that answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Whether the two are joined as they are: a prompt and its completion.
    pub plain: bool,
    /// What is said before the request, if anything.
    pub system: Option<String>,
    /// The instruction, question or prompt.
    pub request: String,
    /// What the instruction is about, if anything.
    pub input: Option<String>,
    /// The output, answer or completion.
    pub answer: String,
}
