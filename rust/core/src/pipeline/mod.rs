//! The one place that knows the order of the stages; it owns the threads.
//!
//! [`Intake`] goes from files to documents, in input order whatever the threads; [`Packing`] goes from documents
//! to rows. [`pack_files`], [`pack_dir`] and [`pack_memory`] put the two together by a [`Packer`], which lets them overlap
//! where the strategy allows it ([`Rolling`]), as [`stream`](crate::stream) always does.

mod books;
mod cache;
mod chat;
mod dir;
mod intake;
mod lane;
mod markers;
mod memory;
mod pace;
mod packer;
mod packing;
mod per_file;
mod recognise;
mod render;
mod rolling;
mod scan;
mod split;
mod tokens;
mod training;
mod transform;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use fastpack_tokenize::{Engine, Tokenizer};

use crate::assemble::{Layout, Sources};
use crate::config::{Bos, Eos, Inputs, Options, Reading, RowLayout, Validation};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::ledger::Ledger;
use crate::report::{Histogram, InputReport, Report, Tally};
use crate::sink::{Sink, Tables};
use crate::source::{Blocks, Found, Memory, discover};
use crate::template::{ChatTemplate, Prompts};

pub use chat::{Chat, chat, render};
pub use dir::{pack_dir, write_memory};
pub use memory::pack_memory;
pub use scan::{Fit, Lost, Scan, TemplateScan, scan};
pub use tokens::repack;
pub use transform::{Filter, Mapping, Transform};

use cache::Entry;
use dir::read_report;
pub(crate) use intake::{Intake, Outcome};
use markers::cut_markers;
use packer::Packer;
pub(crate) use packing::Packing;
use recognise::Seen;
use render::CHAT_TEMPLATE;
pub(crate) use rolling::{BatchSize, Rolling};
use tokens::pack_kept;

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

/// Packs all of `inputs` into `tables`, and sets as many documents aside as `validation` says.
///
/// With a folder `cache`, tokens are taken from there where they were made before, and left there else, unless a
/// function of the caller cannot be told from others.
pub fn pack_files(
    mut job: Job,
    inputs: &Inputs,
    validation: Option<Validation>,
    cache: Option<&Path>,
    control: &Control,
    tables: &mut Tables,
) -> Result<Report> {
    job.validate(inputs)?;
    let found = discover(inputs, control)?;
    let Some(cache) = cache.filter(|_| job.transform.is_identified()) else {
        let about = About::new(&job, &found);
        return pack_blocks(&job, Blocks::new(found), (about, validation), control, tables);
    };
    let entry = Entry::of(&job, &found, cache, control)?;
    entry.use_tokens(&mut job, &found, control, |job, kept, warning| {
        let before = read_report(&kept.report, cache)?;
        // Documents know their files by the names that those had when the tokens were made.
        let sources = Sources::new(before.sources.iter().map(|name| Arc::from(Path::new(name))));
        let mut about = About::new(job, &found);
        (about.inputs, about.warnings) = (before.inputs, before.warnings);
        about.warnings.extend(warning);
        about.template_engine = before.template_engine;
        about.template_engine_reason = before.template_engine_reason;
        let layout = job.layout(sources)?;
        *tables = Tables::default();
        pack_kept(kept, &job.options, (about, layout, validation), control, tables)
    })
}

/// Packs all of `blocks` into `sink`.
fn pack_blocks(
    job: &Job,
    blocks: Blocks,
    (mut about, validation): (About, Option<Validation>),
    control: &Control,
    sink: &mut dyn Sink,
) -> Result<Report> {
    let started = Instant::now();
    let packing = Packing::new(&job.options, job.layout(about.sources.clone())?);
    let mut packer = Packer::new(packing.with_validation(validation), sink, control, started);
    let seen = Intake::new(job, control).read(blocks, None, |outcome| packer.take(outcome))?;
    about.read(job, seen);
    packer.finish(about)
}

/// What a report says of the inputs and the tokenizer.
pub(crate) struct About {
    files: u64,
    bytes: u64,
    tokenizer: Option<String>,
    engine: String,
    engine_reason: Option<String>,
    template_engine: Option<String>,
    template_engine_reason: Option<String>,
    pub(crate) inputs: Vec<InputReport>,
    pub(crate) sources: Sources,
    warnings: Vec<String>,
}

impl About {
    /// The same of a part of the inputs, of so many files and bytes.
    fn of_part(&self, files: u64, bytes: u64) -> Self {
        Self {
            files,
            bytes,
            tokenizer: self.tokenizer.clone(),
            engine: self.engine.clone(),
            engine_reason: self.engine_reason.clone(),
            template_engine: None,
            template_engine_reason: None,
            inputs: Vec::new(),
            sources: Sources::default(),
            warnings: Vec::new(),
        }
    }

    /// Records that are in memory.
    fn of_memory(job: &Job, memory: &Memory) -> Self {
        Self { sources: Sources::new([memory.name()]), ..Self::new(job, &Found::default()) }
    }

    pub(crate) fn new(job: &Job, found: &Found) -> Self {
        let (engine, engine_reason) = match job.tokenizer.as_ref().map(Tokenizer::engine) {
            None => ("none", None),
            Some(Engine::Compiled) => ("compiled", None),
            Some(Engine::Reference { reason }) => ("reference", Some(reason)),
        };
        let engine = engine.to_owned();
        let sources = Sources::new(found.files.iter().map(|file| Arc::clone(&file.path)));
        let mut warnings = Vec::new();
        if let Some(first) = found.passed_over.first() {
            let count = found.passed_over.len();
            warnings.push(format!(
                "{count} files were passed over, which are of no format that is read or beside the data; first `{}`",
                first.display()
            ));
        }
        warnings.extend_from_slice(&job.transform.warnings);
        Self {
            files: found.files.len() as u64,
            bytes: found.bytes(),
            tokenizer: job.tokenizer_name.clone(),
            engine,
            engine_reason,
            template_engine: None,
            template_engine_reason: None,
            inputs: Vec::new(),
            sources,
            warnings,
        }
    }

    /// Says what the files were recognised as, and what put them into words, once all is read.
    pub(crate) fn read(&mut self, job: &Job, seen: Seen) {
        self.inputs = seen.inputs;
        self.warnings.extend(seen.unprompted.iter().map(|what| {
            format!("`prompt` has no use for {what}: it puts requests and their answers into words")
        }));
        let any = self.inputs.iter().any(|input| input.prompt.as_deref() == Some(CHAT_TEMPLATE));
        let JobTemplate::Ready(template) = &job.template else { return };
        self.warnings.extend(template.rendered_outside());
        if any {
            let replays = template.replays(lane::wanted(&job.options));
            self.template_engine_reason = replays.err().map(str::to_owned);
            let engine = match replays {
                Ok(()) => "compiled",
                Err(_) if template.is_refused() => "python",
                Err(_) => "interpreted",
            };
            self.template_engine = Some(engine.to_owned());
            let tokenizer = job.tokenizer.as_ref();
            let cut = tokenizer.map(|tokenizer| cut_markers(template, tokenizer));
            self.warnings.extend(cut.into_iter().flatten());
        }
    }

    /// A report of nothing else.
    fn alone(self, options: &Options) -> Report {
        let tally = Tally {
            files: self.files,
            bytes: self.bytes,
            ledger: Ledger::default(),
            lengths: Histogram::default(),
            rows: 0,
            lower_bound: 0,
            trained_tokens: 0,
            tokenizer: self.tokenizer,
            engine: self.engine,
            engine_reason: self.engine_reason,
            template_engine: self.template_engine,
            template_engine_reason: self.template_engine_reason,
            inputs: self.inputs,
            sources: self.sources.names(),
            warnings: self.warnings,
        };
        Report::timeless(tally, options)
    }

    /// What the report of another run says of them, whose files were `sources`.
    pub(crate) fn of(report: Report, sources: Sources) -> Self {
        Self {
            files: report.files,
            bytes: report.bytes,
            tokenizer: report.tokenizer,
            engine: report.engine,
            engine_reason: report.engine_reason,
            template_engine: report.template_engine,
            template_engine_reason: report.template_engine_reason,
            inputs: report.inputs,
            sources,
            warnings: Vec::new(),
        }
    }
}
