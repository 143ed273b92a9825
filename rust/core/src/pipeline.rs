//! The one file that knows the order of the stages; it owns the threads.
//!
//! [`Intake`] goes from files to documents, in input order whatever the threads; [`Packing`] goes from documents
//! to rows. [`pack_files`], [`pack_dir`] and [`pack_table`] put the two together, and so does
//! [`stream`](crate::stream), which lets them overlap.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::record_batch::RecordBatch;
use fastpack_tokenize::{Engine, Tokenizer};
use serde_json::json;

use crate::assemble::{batch_ranges, rows, schema};
use crate::config::{Eos, Inputs, OnBadRecord, Options, Output, RowColumn, TrainOn};
use crate::control::{Control, Phase};
use crate::document::tokenize::{DocumentMaker, Ending, Kind};
use crate::document::{Document, Documents, INPUTS, table};
use crate::error::{Error, Origin, Result};
use crate::ledger::{Ledger, Reason};
use crate::ordered::ordered;
use crate::pack::{Cut, Piece, Plan, cut, lower_bound, plan};
use crate::record::{Fault, Record, read};
use crate::report::{Histogram, Report, Stages, Tally};
use crate::sink::{Opened, open};
use crate::source::{Block, Blocks, Found, Line, SourceFile, discover};
use crate::store::Store;
use crate::template::{ChatTemplate, Rendered, Span, Trained};

/// Rows a batch holds at most: what one Arrow buffer of `pack_files` is made of.
const BATCH_ROWS: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// Tokens a batch holds at most, unless one row has more: 16 MiB a column, far below the reach of 32-bit offsets.
const BATCH_TOKENS: u64 = 4 << 20;

/// What a run works with: how, with which tokenizer, with which template.
#[derive(Debug)]
pub struct Job {
    /// What decides the content of the output.
    pub options: Options,
    /// Makes the ids.
    pub tokenizer: Tokenizer,
    /// The id that ends a text, if the tokenizer names one.
    pub eos_id: Option<u32>,
    /// What renders conversations.
    pub template: JobTemplate,
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
    pub(crate) fn validate(&self) -> Result<()> {
        self.options.validate()?;
        if self.options.eos == Eos::Always && self.eos_id.is_none() {
            return Err(Error::option("eos", "is True, but the tokenizer names no `eos_token`"));
        }
        Ok(())
    }
}

/// Packs all of `inputs` and hands the rows to `emit`, a batch at a time.
pub fn pack_files(
    job: &Job,
    inputs: &Inputs,
    control: &Control,
    emit: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<Report> {
    job.validate()?;
    pack_found(job, discover(inputs)?, control, emit)
}

/// Packs all of `inputs` into files in `output.dir`.
///
/// A folder in which the very job has finished before is left as it is, and its report returned.
pub fn pack_dir(job: &Job, inputs: &Inputs, output: &Output, control: &Control) -> Result<Report> {
    job.validate()?;
    let found = discover(inputs)?;
    refuse_own_inputs(&found.files, output)?;
    let mut folder = match open(output, &identity(job, &found.files, output))? {
        Opened::Ready(folder) => folder,
        Opened::Finished(report) => {
            return serde_json::from_str(&report).map_err(|error| Error::Output {
                path: output.dir.clone(),
                reason: format!(
                    "its report cannot be read ({error}); `overwrite=True` packs again"
                ),
            });
        }
    };
    let report = pack_found(job, found, control, &mut |batch| folder.write(&batch))?;
    folder.finish(&report.to_json())?;
    Ok(report)
}

/// Packs rows that are tokenized already: batches with `input_ids`, and labels or a mask if any.
pub fn pack_table(
    options: &Options,
    batches: &[RecordBatch],
    control: &Control,
    emit: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<Report> {
    options.validate()?;
    let started = Instant::now();
    let mut packing = Packing::new(options);
    let columns = table::Columns {
        input_ids: schema::name(RowColumn::InputIds),
        labels: schema::name(RowColumn::Labels),
    };
    let mut first_row = 0;
    control.enter(Phase::Tokenize);
    for batch in batches {
        control.tick()?;
        let mut ledger = Ledger::default();
        let documents = table::read(batch, &columns, options.train_on, first_row, &mut ledger)?;
        first_row += batch.num_rows() as u64;
        control.count_block(0, documents.len() as u64, documents.tokens(INPUTS));
        packing.take(Outcome { documents, ledger, stages: Stages::default() });
    }
    packing.pack(control, emit)?;
    let about = About {
        files: 0,
        bytes: 0,
        tokenizer: None,
        engine: "none".to_owned(),
        engine_reason: None,
        warnings: Vec::new(),
    };
    packing.report(about, started)
}

/// Refuses to write where an input lies: a shard might take its place.
fn refuse_own_inputs(files: &[SourceFile], output: &Output) -> Result<()> {
    let Ok(dir) = output.dir.canonicalize() else { return Ok(()) };
    let inside =
        files.iter().find(|file| file.path.canonicalize().is_ok_and(|path| path.starts_with(&dir)));
    inside.map_or(Ok(()), |file| {
        let reason =
            format!("holds the input `{}`; write to a folder of its own", file.path.display());
        Err(Error::Output { path: output.dir.clone(), reason })
    })
}

/// What makes a job the same as another: all that decides its output, and the state of its inputs.
fn identity(job: &Job, files: &[SourceFile], output: &Output) -> serde_json::Value {
    let files: Vec<_> = files
        .iter()
        .map(|file| json!({"path": file.path.to_string_lossy(), "size": file.size, "modified": file.modified.to_string()}))
        .collect();
    json!({
        "fastpack": env!("CARGO_PKG_VERSION"),
        "inputs": files,
        "options": job.options,
        "output": output,
        "tokenizer": job.tokenizer.fingerprint(),
        "eos_id": job.eos_id,
        "template": match &job.template {
            JobTemplate::Ready(template) => Some(template.fingerprint()),
            JobTemplate::Refused(_) => None,
        },
    })
}

fn pack_found(
    job: &Job,
    found: Found,
    control: &Control,
    emit: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<Report> {
    let started = Instant::now();
    let about = About::new(job, &found);
    let mut packing = Packing::new(&job.options);
    Intake::new(job, control).read(found.files, |outcome| {
        packing.take(outcome);
        Ok(())
    })?;
    packing.pack(control, emit)?;
    packing.report(about, started)
}

/// What a report says of the inputs and the tokenizer.
pub(crate) struct About {
    files: u64,
    bytes: u64,
    tokenizer: Option<String>,
    engine: String,
    engine_reason: Option<String>,
    warnings: Vec<String>,
}

impl About {
    pub(crate) fn new(job: &Job, found: &Found) -> Self {
        let (engine, engine_reason) = match job.tokenizer.engine() {
            Engine::Compiled => ("compiled".to_owned(), None),
            Engine::Reference { reason } => ("reference".to_owned(), Some(reason)),
        };
        let mut warnings = Vec::new();
        if let Some(first) = found.passed_over.first() {
            let count = found.passed_over.len();
            warnings.push(format!(
                "{count} data files were passed over, first `{}`: only JSON lines are read",
                first.display()
            ));
        }
        Self {
            files: found.files.len() as u64,
            bytes: found.files.iter().map(|file| file.size).sum(),
            tokenizer: job.tokenizer_name.clone(),
            engine,
            engine_reason,
            warnings,
        }
    }
}

/// From files to documents.
pub(crate) struct Intake<'a> {
    job: &'a Job,
    control: &'a Control,
}

/// What one block came to.
pub(crate) struct Outcome {
    pub(crate) documents: Documents,
    pub(crate) ledger: Ledger,
    pub(crate) stages: Stages,
}

impl<'a> Intake<'a> {
    pub(crate) fn new(job: &'a Job, control: &'a Control) -> Self {
        Self { job, control }
    }

    /// Reads `files` on all threads and hands over what each block came to, in input order.
    pub(crate) fn read(
        &self,
        files: Vec<SourceFile>,
        consume: impl FnMut(Outcome) -> Result<()>,
    ) -> Result<()> {
        self.control.enter(Phase::Tokenize);
        self.control.expect_bytes(files.iter().map(|file| file.size).sum());
        let mut blocks = Blocks::new(files);
        let next = || {
            self.control.tick()?;
            let started = Instant::now();
            let block = blocks.next_block()?;
            Ok(block.map(|block| (block, started.elapsed())))
        };
        ordered(self.job.options.threads, next, || self.worker(), consume)
    }

    /// One thread's way from blocks to documents.
    fn worker(&self) -> impl FnMut((Block, Duration)) -> Result<Outcome> {
        let ending = Ending { eos: self.job.options.eos, eos_id: self.job.eos_id };
        let mut maker = DocumentMaker::new(&self.job.tokenizer, ending);
        move |(block, read)| {
            let mut outcome = Outcome {
                documents: Documents::new(Arc::clone(&block.path), &[INPUTS]),
                ledger: Ledger::default(),
                stages: Stages { read, ..Stages::default() },
            };
            for line in block.lines() {
                self.control.tick()?;
                if let Err(failure) = self.record(line, &mut maker, &mut outcome) {
                    self.refuse(failure, &block.path, line.number, &mut outcome.ledger)?;
                }
            }
            let documents = outcome.ledger.read.documents;
            self.control.count_block(block.size, documents, outcome.ledger.read.tokens);
            Ok(outcome)
        }
    }

    /// One line, through all stages to a document.
    fn record(
        &self,
        line: Line<'_>,
        maker: &mut DocumentMaker,
        outcome: &mut Outcome,
    ) -> std::result::Result<(), Failure<'a>> {
        let mut clock = Instant::now();
        let mut lap = |stage: &mut Duration| {
            let now = Instant::now();
            *stage += now - clock;
            clock = now;
        };
        let record = read(line.bytes, &self.job.options.fields);
        lap(&mut outcome.stages.parse);
        let rendered = self.render(record?);
        lap(&mut outcome.stages.render);
        let (rendered, kind) = rendered?;
        let made =
            maker.make(&rendered, kind, line.number, &mut outcome.documents, &mut outcome.ledger);
        lap(&mut outcome.stages.encode);
        Ok(made?)
    }

    fn render(&self, record: Record) -> std::result::Result<(Rendered, Kind), Failure<'a>> {
        let train_on = self.job.options.train_on;
        match record {
            Record::Text(_) if train_on == TrainOn::Assistant => {
                let message =
                    "a text has no assistant to train on; use `train_on=\"auto\"` or `\"all\"`";
                Err(Fault::new(Reason::Unmaskable, message).into())
            }
            Record::Text(text) => Ok((Rendered { text, trained: Trained::All }, Kind::Text)),
            Record::Conversation(conversation) => {
                let template = match &self.job.template {
                    JobTemplate::Ready(template) => template,
                    JobTemplate::Refused(error) => return Err(Failure::NoTemplate(error)),
                };
                let rendered = if train_on == TrainOn::All {
                    Rendered { text: template.render(&conversation)?, trained: Trained::All }
                } else {
                    let (text, ranges) = template.render_with_spans(&conversation)?;
                    let spans =
                        ranges.into_iter().map(|range| Span { range, weight: 1.0 }).collect();
                    Rendered { text, trained: Trained::Spans(spans) }
                };
                Ok((rendered, Kind::Conversation))
            }
        }
    }

    /// Ends the run, or counts the record among those left out.
    fn refuse(
        &self,
        failure: Failure<'_>,
        path: &Arc<Path>,
        line: u64,
        ledger: &mut Ledger,
    ) -> Result<()> {
        let origin = Origin { path: Arc::clone(path), line };
        match (failure, self.job.options.on_bad_record) {
            (Failure::NoTemplate(error), _) => Err(error.about_template(&origin)),
            (Failure::Record(fault), OnBadRecord::Error) => Err(fault.into_error(origin)),
            (Failure::Record(fault), OnBadRecord::Skip) => {
                ledger.bad_record(fault.into_place(origin));
                Ok(())
            }
        }
    }
}

/// Why a line became no document.
enum Failure<'a> {
    /// The record is at fault.
    Record(Fault),
    /// The job is: it has no template for conversations.
    NoTemplate(&'a Error),
}

impl From<Fault> for Failure<'_> {
    fn from(fault: Fault) -> Self {
        Self::Record(fault)
    }
}

/// From documents to rows, and the books of both.
pub(crate) struct Packing<'a> {
    options: &'a Options,
    pub(crate) store: Store,
    pub(crate) books: Books,
}

/// What is counted on the way.
#[derive(Default)]
pub(crate) struct Books {
    ledger: Ledger,
    /// Lengths of the documents that have something to learn from.
    lengths: Histogram,
    /// Lengths of the pieces that were packed.
    packed: Histogram,
    trained_tokens: u64,
    rows: u64,
    pub(crate) stages: Stages,
}

impl<'a> Packing<'a> {
    pub(crate) fn new(options: &'a Options) -> Self {
        Self { options, store: Store::default(), books: Books::default() }
    }

    /// Keeps what a block came to; returns the numbers of its documents.
    pub(crate) fn take(&mut self, outcome: Outcome) -> Range<u64> {
        self.books.stages.add_work(&outcome.stages);
        self.books.ledger.merge(outcome.ledger);
        self.store.push(outcome.documents)
    }

    /// The piece of a document that is packed, which the piece calls `name`; nothing where it is dropped.
    pub(crate) fn piece(&mut self, number: u64, name: u32) -> Result<Option<Piece>> {
        self.books.piece(self.store.document(number), name, self.options)
    }

    /// Packs all documents and hands over the rows.
    fn pack(
        &mut self,
        control: &Control,
        emit: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        control.enter(Phase::Plan);
        let started = Instant::now();
        let mut pieces = Vec::new();
        for (number, document) in self.store.documents().enumerate() {
            control.tick()?;
            let name = u32::try_from(number).map_err(|_| {
                Error::option("files", "hold more than 4294967296 documents; pack them in parts")
            })?;
            pieces.extend(self.books.piece(document, name, self.options)?);
        }
        let plan = plan(&pieces, self.options.max_length, self.options.strategy, control)?;
        drop(pieces);
        self.books.stages.plan += started.elapsed();

        control.enter(Phase::Write);
        for range in batch_ranges(&plan, BATCH_ROWS, BATCH_TOKENS) {
            control.tick()?;
            self.hand_over(&plan, range, control, emit)?;
        }
        Ok(())
    }

    /// Assembles some rows of `plan` and hands them over.
    pub(crate) fn hand_over(
        &mut self,
        plan: &Plan,
        range: Range<usize>,
        control: &Control,
        emit: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let started = Instant::now();
        let batch = rows(&self.store, plan, range.clone(), &self.options.columns)?;
        let assembled = Instant::now();
        self.books.stages.assemble += assembled - started;
        self.books.count_rows(plan, range);
        control.count_rows(batch.num_rows() as u64);
        emit(batch)?;
        self.books.stages.write += assembled.elapsed();
        Ok(())
    }

    /// Closes the books.
    pub(crate) fn report(self, about: About, started: Instant) -> Result<Report> {
        let Books { ledger, lengths, packed, trained_tokens, rows, stages } = self.books;
        ledger.balance()?;
        let mut warnings = about.warnings;
        if ledger.kept.documents == 0 {
            warnings.push("no document was kept".to_owned());
        }
        let tally = Tally {
            files: about.files,
            bytes: about.bytes,
            ledger,
            lengths,
            rows,
            lower_bound: lower_bound(&packed.pairs(), self.options.max_length),
            trained_tokens,
            tokenizer: about.tokenizer,
            engine: about.engine,
            engine_reason: about.engine_reason,
            warnings,
        };
        let seconds = started.elapsed().as_secs_f64();
        Ok(Report::timeless(tally, self.options).timed(
            seconds,
            self.options.threads.get(),
            &stages,
        ))
    }
}

impl Books {
    fn piece(
        &mut self,
        document: Document<'_>,
        name: u32,
        options: &Options,
    ) -> Result<Option<Piece>> {
        let max = options.max_length;
        let length = u32::try_from(document.column(INPUTS).len())
            .expect("documents are made of fewer tokens");
        self.lengths.add(length);
        let kept = match cut(u64::from(length), max, options.overlong) {
            Cut::Whole => length,
            Cut::Start => max.get(),
            Cut::Drop => {
                self.ledger.drop_document(Reason::TooLong, u64::from(length));
                return Ok(None);
            }
            Cut::Refuse => {
                let message = format!(
                    "the document has {length} tokens, more than `max_length={max}`; `overlong` says what else to do"
                );
                return Err(Error::Record {
                    origin: document.origin(),
                    reason: Reason::TooLong,
                    message,
                });
            }
        };
        let labels = document.labels(kept);
        if labels == 0 {
            self.ledger.drop_document(Reason::NoTrainedToken, u64::from(length));
            return Ok(None);
        }
        if kept < length {
            self.ledger.truncated.add(u64::from(length - kept));
        }
        self.trained_tokens += labels;
        Ok(Some(Piece { document: name, start: 0, length: kept }))
    }

    fn count_rows(&mut self, plan: &Plan, range: Range<usize>) {
        self.rows += range.len() as u64;
        for &length in plan.lengths_of(range) {
            self.packed.add(length);
            self.ledger.kept.add(u64::from(length));
        }
    }
}
