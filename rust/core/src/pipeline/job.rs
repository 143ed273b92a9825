//! [`Job`]: the options, tokenizer, template and functions of a run.

use std::sync::Arc;

use fastpack_tokenize::{BuiltBy, Pretrained, Tokenizer};

use super::documents::filter_and_map::Transform;
use crate::assemble::{Layout, NumberedFiles};
use crate::config::{
    Bos, DocumentKind, Eos, Inputs, ObjectiveOptions, Options, Part, Reading, RowLayout,
    RowOptions, TokenOptions,
};
use crate::error::{Error, Result};
use crate::objective::{Objective, ObjectiveVocabulary, objective};
use crate::storage::RemotePictures;
use crate::template::{ChatTemplate, Prompts};
use crate::util::wording::{message, set};

/// The options, tokenizer, template and functions of a run.
#[derive(Debug)]
pub struct Job {
    /// The options that decide the output.
    pub options: Options,
    /// The tokenizer. Records that are ids need none.
    pub tokenizer: Option<Tokenizer>,
    /// The beginning-of-text id, if the tokenizer has one.
    pub bos_id: Option<u32>,
    /// The text of the beginning-of-text token, if the tokenizer has one.
    pub begin: Option<String>,
    /// The text of the end-of-text token, if the tokenizer has one.
    pub end: Option<String>,
    /// The end-of-text id, if the tokenizer has one.
    pub eos_id: Option<u32>,
    /// The padding id, if the tokenizer has one.
    pub pad_id: Option<u32>,
    /// The named special tokens of the tokenizer, such as (`mask_token`, `[MASK]`).
    pub special_tokens: Vec<(String, String)>,
    /// The chat template.
    pub template: JobTemplate,
    /// True if names of classes are found in the records where `classes` is not given: all of them have to be read
    /// before the first row.
    pub finds_classes: bool,
    /// The caller's functions.
    pub transform: Transform,
    /// The pictures of records that lie in remote storage, if any are packed.
    pub pictures: Option<Arc<RemotePictures>>,
    /// The transformers that built the tokenizer, if fastpack did not.
    pub built_by: Option<BuiltBy>,
    /// The tokenizer as the user named it, for the report.
    pub tokenizer_name: Option<String>,
}

/// The chat template of a run.
#[derive(Debug)]
pub enum JobTemplate {
    /// A template.
    Ready(Box<ChatTemplate>),
    /// No template, for this reason. The first conversation ends the run with it; texts are not affected.
    Refused(Error),
}

impl Job {
    /// A job without a tokenizer, functions and pictures.
    pub fn without_tokenizer(options: Options) -> Self {
        Self {
            options,
            tokenizer: None,
            bos_id: None,
            begin: None,
            end: None,
            eos_id: None,
            pad_id: None,
            special_tokens: Vec::new(),
            template: JobTemplate::Refused(Error::no_tokenizer()),
            finds_classes: true,
            transform: Transform::default(),
            pictures: None,
            built_by: None,
            tokenizer_name: None,
        }
    }

    /// A job with the tokenizer of a model folder, without functions and pictures.
    pub fn new(options: Options, pretrained: &Pretrained, template: JobTemplate) -> Self {
        let tokenizer = &pretrained.tokenizer;
        let id = |token: Option<&str>| token.and_then(|token| tokenizer.token_to_id(token));
        let begin = pretrained.special_token("bos_token");
        Self {
            tokenizer: Some(tokenizer.clone()),
            bos_id: id(begin),
            begin: begin.map(str::to_owned),
            end: pretrained.eos_token().map(str::to_owned),
            eos_id: id(pretrained.eos_token()),
            pad_id: id(pretrained.pad_token()),
            special_tokens: pretrained.special_tokens.clone(),
            template,
            built_by: pretrained.built_by.clone(),
            ..Self::without_tokenizer(options)
        }
    }

    /// The facts about the tokenizer that objectives need.
    pub(crate) fn vocabulary(&self) -> ObjectiveVocabulary<'_> {
        ObjectiveVocabulary { tokenizer: self.tokenizer.as_ref(), named: &self.special_tokens }
    }

    /// The training objective.
    pub(crate) fn objective(&self) -> Result<Arc<dyn Objective>> {
        objective(&self.options, self.vocabulary())
    }

    /// The columns and padding of the rows.
    pub(crate) fn layout(&self, sources: NumberedFiles) -> Result<Layout> {
        let pad_id = self.pad_id.or(self.eos_id);
        let layout = Layout::new(&self.options, self.objective()?, pad_id, sources)?;
        Ok(layout.with_remote_pictures(self.pictures.clone()))
    }

    /// The columns and padding of the rows in files.
    pub(crate) fn file_layout(&self, sources: NumberedFiles, stored: RowLayout) -> Result<Layout> {
        let layout = self.layout(sources)?;
        if stored == RowLayout::Full {
            return Ok(layout);
        }
        Ok(layout.stored_as(stored, self.tokenizer.as_ref().and_then(Tokenizer::largest_id)))
    }

    /// Checks the options, and the options of each source.
    pub(crate) fn validate(&self, inputs: &Inputs) -> Result<()> {
        self.options.validate()?;
        self.objective()?;
        for source in &inputs.sources {
            source.validate()?;
            let RowOptions { objective, .. } = &self.options.rows;
            source.reading.validate_for(objective.documents().shapes(), objective.name().name())?;
            let Reading { prompt, examples, fields, .. } = &source.reading;
            if fields.get(Part::Images).is_some() && self.options.tokens.images.is_none() {
                let reason = message![
                    "names the field of `images`, and pictures are not read; add ",
                    set("reading.images", "reference"),
                ];
                return Err(Error::option("reading.fields", reason));
            }
            prompt.as_ref().map(|prompt| Prompts::new(prompt, examples)).transpose()?;
        }
        let TokenOptions { classes, documents, .. } = &self.options.tokens;
        classes.suffice_for(*documents, self.finds_classes)?;
        if *documents == DocumentKind::Converted && self.transform.objective.is_none() {
            let reason = message!["must be given with ", set("objective", "custom")];
            return Err(Error::option("objective.function", reason));
        }
        let takes_ids = documents.is_of_whole_texts() || *documents == DocumentKind::Prompts;
        if self.tokenizer.is_none() && !takes_ids {
            return Err(Error::no_tokenizer());
        }
        let has_answers =
            matches!(self.options.rows.objective, ObjectiveOptions::Preference { .. });
        if has_answers && self.options.tokens.eos == Eos::Auto && self.end.is_none() {
            let reason = "must be False: answers that are texts end with the `eos_token`, and the tokenizer names none";
            return Err(Error::option("special_tokens.eos", reason));
        }
        if self.options.tokens.eos == Eos::Always && self.eos_id.is_none() {
            return Err(Error::option(
                "special_tokens.eos",
                "is True, but the tokenizer names no `eos_token`; leave it out, or give the tokenizer one",
            ));
        }
        if self.options.tokens.bos == Bos::Always && self.bos_id.is_none() {
            return Err(Error::option(
                "special_tokens.bos",
                "is True, but the tokenizer names no `bos_token`; leave it out, or give the tokenizer one",
            ));
        }
        Ok(())
    }
}
