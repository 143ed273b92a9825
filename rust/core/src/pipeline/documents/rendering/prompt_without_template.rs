//! [`PromptWithoutTemplate`]: the prompt format of requests that the chat template does not render.

use crate::config::{Prompt, Reading};
use crate::error::Result;
use crate::record::Pair;
use crate::template::Prompts;

/// The prompt formats of a source, for requests without a chat template.
pub(super) struct PromptWithoutTemplate {
    /// The one that the caller chose, if any. It takes the place of the chat template too.
    chosen: Option<Prompts>,
    /// For requests: the Alpaca prompt.
    alpaca: Prompts,
    /// For a prompt and its completion, which are joined as they are.
    joined: Prompts,
}

impl PromptWithoutTemplate {
    pub(super) fn new(reading: &Reading) -> Result<Self> {
        let chosen = reading.prompt.as_ref();
        Ok(Self {
            chosen: chosen.map(|prompt| Prompts::new(prompt, &reading.examples)).transpose()?,
            alpaca: Prompts::new(&Prompt::Alpaca, &reading.examples)?,
            joined: Prompts::joined(&reading.examples)?,
        })
    }

    /// True if the caller chose a prompt format.
    pub(super) fn is_chosen(&self) -> bool {
        self.chosen.is_some()
    }

    /// The prompt of a request.
    pub(super) fn of(&self, pair: &Pair) -> &Prompts {
        let usual = if pair.plain { &self.joined } else { &self.alpaca };
        self.chosen.as_ref().unwrap_or(usual)
    }

    /// True if the prompt of a request adds words to it.
    pub(super) fn adds_words(&self, pair: &Pair) -> bool {
        self.is_chosen() || !pair.plain
    }
}
