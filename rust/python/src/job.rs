//! [`JobParts`]: builds the [`Job`] that the core runs from options, a tokenizer, a chat template and functions.

use std::sync::Arc;

use chrono::NaiveDateTime;
use fastpack_core::json::Map;
use fastpack_core::pipeline::{Job, JobTemplate};
use fastpack_core::template::{ChatTemplate, RenderCommand, TemplateContext, select_template};
use fastpack_core::{Options, Result};
use fastpack_tokenize::{NamedTemplate, Pretrained};
use pyo3::prelude::*;

use crate::callers::transform::PyTransform;
use crate::calls::pictures::PictureParts;
use crate::calls::pretrained::PyPretrained;
use crate::interruptible::Caller;
use crate::options::{PyOptions, PyTemplateKwargs};

/// The parts of a job. The calling thread collects them, and the job's thread builds the job.
#[derive(Debug)]
pub(crate) struct JobParts {
    options: Options,
    tokenizer_name: Option<String>,
    /// `None` without a tokenizer.
    renderer: Option<TemplateParts>,
    transform: PyTransform,
    /// The storage of pictures that lie elsewhere, if any are packed.
    pictures: Option<PictureParts>,
}

/// The parts of a chat template: its text, its variables, and the tokenizer with its own templates.
#[derive(Debug)]
pub(crate) struct TemplateParts {
    pretrained: Arc<Pretrained>,
    template: Option<NamedTemplate>,
    kwargs: Map,
    /// The command that starts a Python process, which renders templates that the core refuses.
    command: Option<Vec<String>>,
}

/// The chat template of a call: its name and text if it is not the tokenizer's own, its variables, and the
/// command of the Python process that renders templates which the core refuses.
pub(crate) struct PyChatTemplate(Option<(String, String)>, PyTemplateKwargs, Option<Vec<String>>);

impl<'py> FromPyObject<'_, 'py> for PyChatTemplate {
    type Error = PyErr;

    /// Written by hand, because a derived implementation would wrap the error of a variable in another error.
    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (named, kwargs, command): (_, Bound<'py, PyAny>, _) = value.extract()?;
        Ok(Self(named, kwargs.extract()?, command))
    }
}

impl JobParts {
    pub(crate) fn new(
        options: &PyOptions,
        pretrained: Option<&PyPretrained>,
        template: PyChatTemplate,
        transform: PyTransform,
    ) -> Self {
        Self {
            options: options.0.clone(),
            tokenizer_name: pretrained.and_then(|it| it.name.clone()),
            renderer: pretrained.map(|it| TemplateParts::new(&it.pretrained, template)),
            transform,
            pictures: options.1.clone(),
        }
    }

    /// Builds the job of a stream, whose first rows do not wait for its last records.
    pub(crate) fn job_of_stream(self, caller: &Caller) -> Result<Job> {
        Ok(Job { finds_classes: false, ..self.job(caller)? })
    }

    /// Builds the job: compiles the template, and has `caller` run the functions of the job.
    pub(crate) fn job(self, caller: &Caller) -> Result<Job> {
        let Self { options, tokenizer_name, renderer, transform, pictures } = self;
        let transform = transform.run_by(caller);
        let pictures = pictures.map(|pictures| Arc::new(pictures.opened(caller)));
        let job = match renderer {
            None => Job::without_tokenizer(options),
            Some(renderer) => {
                let pretrained = Arc::clone(&renderer.pretrained);
                let template = renderer.template(options.now(), caller)?;
                Job::new(options, &pretrained, template)
            }
        };
        Ok(Job { transform, pictures, tokenizer_name, ..job })
    }
}

impl TemplateParts {
    pub(crate) fn new(pretrained: &Arc<Pretrained>, template: PyChatTemplate) -> Self {
        let PyChatTemplate(named, kwargs, command) = template;
        Self {
            pretrained: Arc::clone(pretrained),
            template: named.map(|(name, source)| NamedTemplate { name, source }),
            kwargs: kwargs.0,
            command,
        }
    }

    /// Compiles the template, with `now` as its current time.
    pub(crate) fn template(self, now: NaiveDateTime, caller: &Caller) -> Result<JobTemplate> {
        let context = TemplateContext::of(&self.pretrained, now, self.kwargs);
        let launch =
            self.command.map(|command| RenderCommand { command, control: caller.control() });
        let compile = |template: &NamedTemplate| {
            let (name, source, context) = (&template.name, &template.source, context.clone());
            match &launch {
                Some(launch) => ChatTemplate::anywhere(name, source, context, launch.clone()),
                None => ChatTemplate::new(name, source, context)
                    .map(|template| template.with_control(caller.control())),
            }
        };
        Ok(match &self.template {
            Some(named) => JobTemplate::Ready(Box::new(compile(named)?)),
            // Texts need no template, so an unusable one is an error only at the first conversation.
            None => own_template(&self.pretrained.chat_templates, compile)
                .unwrap_or_else(JobTemplate::Refused),
        })
    }
}

/// Compiles the tokenizer's default template, and its template for records with tools if it has one.
fn own_template(
    templates: &[NamedTemplate],
    compile: impl Fn(&NamedTemplate) -> Result<ChatTemplate>,
) -> Result<JobTemplate> {
    let named: Vec<_> = templates.iter().map(|it| (it.name.as_str(), it.source.as_str())).collect();
    let (plain, tool_use) =
        (select_template(&named, None, false)?, select_template(&named, None, true)?);
    let template = compile(&templates[plain])?;
    let template = if tool_use == plain {
        template
    } else {
        template.with_tool_use(compile(&templates[tool_use])?)
    };
    Ok(JobTemplate::Ready(Box::new(template)))
}
