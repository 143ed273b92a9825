//! [`Job`]: what a run works with.

use fastpack_tokenize::Tokenizer;

use super::documents::transform::Transform;
use crate::assemble::{Layout, Sources};
use crate::config::{Bos, Eos, Inputs, Options, Reading, RowLayout};
use crate::error::{Error, Result};
use crate::template::{ChatTemplate, Prompts};

/// What a run works with: how, with which tokenizer, with which template.
#[derive(Debug)]
pub struct Job {
    /// What decides the content of the output.
    pub options: Options,
    /// Makes the ids; records that are ids need none.
    pub tokenizer: Option<Tokenizer>,
    /// The id that begins a text, if the tokenizer names one.
    pub bos_id: Option<u32>,
    /// What begins a text, if the tokenizer names a token for it.
    pub begin: Option<String>,
    /// The text of the token that ends a text, if the tokenizer names one.
    pub end: Option<String>,
    /// The id that ends a text, if the tokenizer names one.
    pub eos_id: Option<u32>,
    /// The id that fills rows up, if the tokenizer names one.
    pub pad_id: Option<u32>,
    /// What renders conversations.
    pub template: JobTemplate,
    /// What functions of the caller do to the records.
    pub transform: Transform,
    /// What the user called the tokenizer, for the report.
    pub tokenizer_name: Option<String>,
}

/// What renders conversations.
#[derive(Debug)]
pub enum JobTemplate {
    /// A template.
    Ready(Box<ChatTemplate>),
    /// Nothing, for this reason: the first conversation ends the run with it, texts are not concerned.
    Refused(Error),
}

impl Job {
    /// The columns and padding of the rows.
    pub(crate) fn layout(&self, sources: Sources) -> Result<Layout> {
        Layout::new(&self.options, self.pad_id.or(self.eos_id), sources)
    }

    /// The columns and padding of the rows in files.
    pub(crate) fn file_layout(&self, sources: Sources, stored: RowLayout) -> Result<Layout> {
        let layout = self.layout(sources)?;
        if stored == RowLayout::Full {
            return Ok(layout);
        }
        Ok(layout.stored_as(stored, self.tokenizer.as_ref().and_then(Tokenizer::largest_id)))
    }

    /// Checks the options, and those of each source.
    pub(crate) fn validate(&self, inputs: &Inputs) -> Result<()> {
        self.options.validate()?;
        for source in &inputs.sources {
            source.validate()?;
            let Reading { prompt, examples, .. } = &source.reading;
            prompt.as_ref().map(|prompt| Prompts::new(prompt, examples)).transpose()?;
        }
        if self.options.tokens.eos == Eos::Always && self.eos_id.is_none() {
            return Err(Error::option("eos", "is True, but the tokenizer names no `eos_token`"));
        }
        if self.options.tokens.bos == Bos::Always && self.bos_id.is_none() {
            return Err(Error::option("bos", "is True, but the tokenizer names no `bos_token`"));
        }
        Ok(())
    }
}
