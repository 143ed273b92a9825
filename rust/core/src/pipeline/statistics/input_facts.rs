//! [`InputFacts`]: the facts of a report about the inputs and the tokenizer.

use std::sync::Arc;

use fastpack_tokenize::{Engine, Tokenizer};

use crate::assemble::NumberedFiles;
use crate::config::{Classes, Options};
use crate::pipeline::documents::rendering::control_tokens::missing_markers::cut_markers;
use crate::pipeline::documents::rendering::prompt_names::CHAT_TEMPLATE;
use crate::pipeline::documents::rendering::train_on::TrainedPart;
use crate::pipeline::documents::shape_recogniser::FileKinds;
use crate::pipeline::job::{Job, JobTemplate};
use crate::report::{Report, ReportCounts, RunFacts};
use crate::source::{FoundFiles, MemoryRecords};
use crate::util::message::counted;

/// The facts of a report about the inputs and the tokenizer.
pub(crate) struct InputFacts {
    pub(crate) facts: RunFacts,
    /// The files by the numbers that rows give them.
    pub(crate) sources: NumberedFiles,
}

/// The warning of a run whose tokenizer the compiled engine does not support.
fn slow(reason: &str) -> String {
    format!(
        "the tokenizer runs on the Hugging Face crate, which takes 20 to 80 times as long as a compiled engine: {reason}"
    )
}

impl InputFacts {
    /// The facts about files before they are read.
    pub(crate) fn new(job: &Job, found: &FoundFiles) -> Self {
        let (engine, engine_reason) = match job.tokenizer.as_ref().map(Tokenizer::engine) {
            None => ("none", None),
            Some(Engine::Compiled) => ("compiled", None),
            Some(Engine::Reference { reason }) => ("reference", Some(reason)),
        };
        let mut warnings = Vec::new();
        if let Some(first) = found.passed_over.first() {
            let count = found.passed_over.len();
            warnings.push(format!(
                "{count} files were passed over, which are of no format that is read or beside the data; first `{}`",
                first.display()
            ));
        }
        let untold = found.files.iter().filter(|file| !file.is_identified()).count();
        if let Some(first) = found.files.iter().find(|file| !file.is_identified()) {
            let (are, them, their) =
                if untold == 1 { ("is", "it", "its") } else { ("are", "them", "their") };
            warnings.push(format!(
                "{} {are} in storage that gives neither an ETag nor a time: a later change of {them} is seen by {their} size \
                 alone, and a job on {them} is not resumed; first `{}`",
                counted(untold as u64, "file"),
                first.path.display()
            ));
        }
        warnings.extend(engine_reason.as_deref().map(slow));
        warnings.extend_from_slice(&job.transform.warnings);
        let facts = RunFacts {
            files: found.files.len() as u64,
            bytes: found.bytes(),
            tokenizer: job.tokenizer_name.clone(),
            engine: engine.to_owned(),
            engine_reason,
            warnings,
            classes: match &job.options.tokens.classes {
                Classes::Names(names) => names.clone(),
                Classes::Unknown | Classes::Count(_) => Vec::new(),
            },
            ..RunFacts::default()
        };
        let sources = NumberedFiles::new(found.files.iter().map(|file| Arc::clone(&file.path)));
        Self { facts, sources }
    }

    /// The facts about records in memory.
    pub(in crate::pipeline) fn of_memory(job: &Job, memory: &MemoryRecords) -> Self {
        Self {
            sources: NumberedFiles::new([memory.name()]),
            ..Self::new(job, &FoundFiles::default())
        }
    }

    /// The facts of an earlier report about these `sources`.
    pub(in crate::pipeline) fn of(report: Report, sources: NumberedFiles) -> Self {
        let facts = RunFacts { sources: Vec::new(), warnings: Vec::new(), ..report.facts };
        Self { facts, sources }
    }

    /// The facts of a run over a subset of its inputs.
    pub(in crate::pipeline) fn of_part(&self, files: u64, bytes: u64) -> Self {
        let RunFacts { tokenizer, engine, engine_reason, .. } = self.facts.clone();
        let facts =
            RunFacts { files, bytes, tokenizer, engine, engine_reason, ..RunFacts::default() };
        Self { facts, sources: NumberedFiles::default() }
    }

    /// Adds the names of classes that were found in documents, if there are any.
    pub(in crate::pipeline) fn classes(&mut self, found: Vec<String>) {
        if !found.is_empty() {
            self.facts.classes = found;
        }
    }

    /// Adds the formats and shapes of the files, and the engines that rendered them, after all is read.
    pub(crate) fn read(&mut self, job: &Job, seen: FileKinds) {
        let facts = &mut self.facts;
        facts.warnings.extend(seen.unprompted().iter().map(|what| {
            format!("`reading.prompt` has no use for {what}: it renders requests and their answers")
        }));
        facts.inputs = seen.inputs;
        let any = facts.inputs.iter().any(|input| input.prompt.as_deref() == Some(CHAT_TEMPLATE));
        let JobTemplate::Ready(template) = &job.template else { return };
        facts.warnings.extend(template.rendered_in_process());
        if any {
            let trained_part = TrainedPart::of(&job.options);
            let replays = if trained_part.replays() {
                template.replays(trained_part.wanted(), trained_part.turns())
            } else {
                Err("the parts of turns are found one by one")
            };
            facts.template_engine_reason = replays.err().map(str::to_owned);
            let engine = match replays {
                Ok(()) => "compiled",
                Err(_) if template.is_refused() => "python",
                Err(_) => "interpreted",
            };
            facts.template_engine = Some(engine.to_owned());
            let tokenizer = job.tokenizer.as_ref();
            let cut = tokenizer.map(|tokenizer| cut_markers(template, tokenizer));
            facts.warnings.extend(cut.into_iter().flatten());
        }
    }

    /// A report with these facts and no counts.
    pub(in crate::pipeline) fn alone(self, options: &Options) -> Report {
        let facts = RunFacts { sources: self.sources.names(), ..self.facts };
        Report::timeless(facts, ReportCounts::default(), options)
    }
}
