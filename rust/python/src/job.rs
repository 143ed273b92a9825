//! Options, a tokenizer and a chat template to the [`Job`] that the core runs.

use std::sync::Arc;

use fastpack_core::pipeline::{Job, JobTemplate};
use fastpack_core::record::value::Map;
use fastpack_core::template::{ChatTemplate, TemplateContext, select_template};
use fastpack_core::{Options, Result};
use fastpack_tokenize::{NamedTemplate, Pretrained};
use pyo3::prelude::*;

use crate::options::{PyOptions, PyTemplateKwargs};
use crate::pretrained::PyPretrained;

/// What a job is made of: made in the call, built on the thread that runs it.
#[derive(Debug)]
pub(crate) struct Parts {
    options: Options,
    pretrained: Arc<Pretrained>,
    tokenizer_name: Option<String>,
    template: Option<NamedTemplate>,
    kwargs: Map,
}

/// A chat template given by the caller: its name and text.
#[derive(FromPyObject)]
pub(crate) struct PyChatTemplate(String, String);

impl Parts {
    pub(crate) fn new(
        options: &PyOptions,
        pretrained: &PyPretrained,
        template: Option<PyChatTemplate>,
        kwargs: PyTemplateKwargs,
    ) -> Self {
        Self {
            options: options.0.clone(),
            pretrained: Arc::clone(&pretrained.pretrained),
            tokenizer_name: pretrained.name.clone(),
            template: template.map(|PyChatTemplate(name, source)| NamedTemplate { name, source }),
            kwargs: kwargs.0,
        }
    }

    /// Compiles the template.
    pub(crate) fn job(self) -> Result<Job> {
        let tokenizer = self.pretrained.tokenizer.clone();
        let context = TemplateContext {
            special_tokens: self.pretrained.special_tokens.clone(),
            turn_ends: tokenizer.special_tokens().to_vec(),
            now: self.options.now.time(),
            kwargs: self.kwargs,
        };
        let template = match self.template {
            Some(given) => JobTemplate::Ready(Box::new(ChatTemplate::new(
                &given.name,
                &given.source,
                context,
            )?)),
            // Texts need none: one that cannot be used is an error only once a conversation asks for it.
            None => own_template(&self.pretrained.chat_templates, &context)
                .unwrap_or_else(JobTemplate::Refused),
        };
        let eos_id = self.pretrained.eos_token().and_then(|token| tokenizer.token_to_id(token));
        Ok(Job {
            options: self.options,
            tokenizer,
            eos_id,
            template,
            tokenizer_name: self.tokenizer_name,
        })
    }
}

/// The tokenizer's own template, and the one that it has for records with tools.
fn own_template(templates: &[NamedTemplate], context: &TemplateContext) -> Result<JobTemplate> {
    let named: Vec<_> = templates.iter().map(|it| (it.name.as_str(), it.source.as_str())).collect();
    let compile = |at: usize| ChatTemplate::new(named[at].0, named[at].1, context.clone());
    let (plain, tool_use) =
        (select_template(&named, None, false)?, select_template(&named, None, true)?);
    let template = compile(plain)?;
    let template =
        if tool_use == plain { template } else { template.with_tool_use(compile(tool_use)?) };
    Ok(JobTemplate::Ready(Box::new(template)))
}
