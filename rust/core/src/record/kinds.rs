//! [`Record`]: the kinds of records.

use std::sync::Arc;

use fastpack_template::json::{Json, Map};

use super::picture::Picture;
use super::shapes::flags::speaks;
use super::shapes::labelled::Labelled;
use super::shapes::record_tokens::RecordTokens;

/// The content of one record.
#[derive(Clone, Debug)]
pub enum Record {
    /// Messages for a chat template.
    Conversation(Conversation),
    /// A request and its answer.
    Pair(Pair),
    /// Text as it stands.
    Text(String),
    /// Ids.
    Tokens(RecordTokens),
    /// A prompt with answers.
    Answers(Answers),
    /// A text or a pair of texts with labels.
    Labelled(Labelled),
}

/// A prompt with the answers that are compared, or with one that is judged.
#[derive(Clone, Debug)]
pub struct Answers {
    /// The prompt with its answers.
    pub prompted: Prompted,
    /// The judgement of the answer, if it is judged.
    pub label: Option<bool>,
}

/// A prompt with its answers, all in one form.
#[derive(Clone, Debug)]
pub enum Prompted {
    /// Texts.
    Texts {
        /// The prompt.
        prompt: String,
        /// The answers, which continue the prompt.
        answers: Vec<String>,
    },
    /// Lists of messages.
    Messages {
        /// The prompt, with the tools and keyword arguments of the record. It may be without messages.
        prompt: Conversation,
        /// The messages of the answers.
        answers: Vec<Vec<Arc<Map>>>,
    },
}

/// Messages and their fields, as a chat template sees them.
#[derive(Clone, Debug)]
pub struct Conversation {
    /// The messages as they were read. Never empty.
    pub messages: Vec<Arc<Map>>,
    /// The tool schemas (a list of maps); `None` where the record has none.
    pub tools: Option<Json>,
    /// The record's own `chat_template_kwargs`.
    pub template_kwargs: Map,
    /// The weight of each message by its own flags, if any has one.
    pub weights: Option<Vec<Option<f32>>>,
    /// The number of messages in the prompt, which the other messages complete; `None` where the record has
    /// no prompt.
    pub prompt: Option<usize>,
    /// The pictures of its parts, in their order.
    pub pictures: Vec<Picture>,
}

impl Conversation {
    /// The role of a message; empty if it has none.
    pub fn role(&self, message: usize) -> &str {
        match self.messages[message].get("role") {
            Some(Json::String(role)) => role,
            _ => "",
        }
    }

    /// Makes the prompt and the completion one conversation of which the completion's turns are trained, if others
    /// speak in the completion, too: tools that answer a call.
    pub fn join_dialogue(&mut self) {
        let Some(prompt) = self.prompt else { return };
        if self.speaking().skip(prompt).all(|speaks| speaks) {
            return;
        }
        let weights = self.weights.get_or_insert_with(|| vec![None; self.messages.len()]);
        for weight in &mut weights[..prompt] {
            weight.get_or_insert(0.0);
        }
        self.prompt = None;
    }

    /// True if each message is of the assistant.
    pub fn speaking(&self) -> impl DoubleEndedIterator<Item = bool> + ExactSizeIterator {
        self.messages.iter().map(|message| speaks(message))
    }

    /// The index of the last message of the assistant.
    pub fn last_turn(&self) -> Option<usize> {
        self.speaking().rposition(|speaks| speaks)
    }
}

/// A request, and its answer as text.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// True if the two are joined as they are: a prompt and its completion.
    pub plain: bool,
    /// The system text before the request, if any.
    pub system: Option<String>,
    /// The instruction, question or prompt.
    pub request: String,
    /// The input of the instruction, if any.
    pub input: Option<String>,
    /// The output, answer or completion.
    pub answer: String,
    /// The turns before the request, as messages.
    pub history: Vec<Arc<Map>>,
    /// The weight of each message of the history by its own flags, if any has one.
    pub history_weights: Option<Vec<Option<f32>>>,
    /// The pictures beside the request, whose places are in the texts.
    pub pictures: Option<Vec<Picture>>,
}
