//! [`Intake`]: from files to documents, on all threads and in input order.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastpack_tokenize::{Engine, Tokenizer};

use super::{Job, JobTemplate};
use crate::config::{OnBadRecord, TrainOn};
use crate::control::{Control, Phase};
use crate::document::tokenize::{DocumentMaker, Ending, Kind};
use crate::document::{Documents, INPUTS};
use crate::error::{Error, Origin, Result};
use crate::ledger::{Ledger, Reason};
use crate::ordered::ordered;
use crate::record::{Fault, Record, read};
use crate::report::Stages;
use crate::sample::places_before;
use crate::source::{Block, Blocks, RawRecord, SourceFile};
use crate::template::{Rendered, Span, Trained};

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
        let all = files.iter().map(|file| file.size).sum();
        self.control.expect_bytes(all);
        // Only a compiled engine can differ from the reference.
        let reference = match self.job.tokenizer.engine() {
            Engine::Compiled if self.job.options.verify > 0 => {
                Some(self.job.tokenizer.with_reference_engine()?)
            }
            _ => None,
        };
        let verified = reference.as_ref().map_or(0, |_| u64::from(self.job.options.verify));
        let mut seen = 0;
        let mut blocks = Blocks::new(files);
        let next = || {
            self.control.tick()?;
            let started = Instant::now();
            let block = blocks.next_block()?;
            Ok(block.map(|block| {
                let before = places_before(seen, all, verified);
                seen += block.size;
                let verify = places_before(seen, all, verified) - before;
                Share { block, read: started.elapsed(), verify }
            }))
        };
        ordered(self.job.options.threads, next, || self.worker(reference.as_ref()), consume)
    }

    /// One thread's way from blocks to documents.
    fn worker(&self, reference: Option<&Tokenizer>) -> impl FnMut(Share) -> Result<Outcome> {
        let ending = Ending { eos: self.job.options.eos, eos_id: self.job.eos_id };
        let mut maker = DocumentMaker::new(&self.job.tokenizer, ending);
        let mut reference = reference.map(|reference| DocumentMaker::new(reference, ending));
        move |Share { block, read, mut verify }| {
            let mut outcome = Outcome {
                documents: Documents::new(Arc::clone(&block.path), &[INPUTS]),
                ledger: Ledger::default(),
                stages: Stages { read, ..Stages::default() },
            };
            for record in block.records() {
                self.control.tick()?;
                let number = record.line;
                let oracle = reference.as_mut().filter(|_| verify > 0);
                match self.record(record, &mut maker, oracle, &mut outcome) {
                    Ok(Checked::No) => {}
                    Ok(Checked::Agrees) => verify -= 1,
                    Ok(Checked::Differs) => {
                        return Err(Error::Differs(format!("{}:{number}", block.path.display())));
                    }
                    Err(failure) => {
                        self.refuse(failure, &block.path, number, &mut outcome.ledger)?;
                    }
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
        raw: RawRecord<'_>,
        maker: &mut DocumentMaker,
        reference: Option<&mut DocumentMaker>,
        outcome: &mut Outcome,
    ) -> std::result::Result<Checked, Failure<'a>> {
        let mut clock = Instant::now();
        let mut lap = |stage: &mut Duration| {
            let now = Instant::now();
            *stage += now - clock;
            clock = now;
        };
        let record = read(raw.raw, &self.job.options.fields);
        lap(&mut outcome.stages.parse);
        let rendered = self.render(record?);
        lap(&mut outcome.stages.render);
        let (rendered, kind) = rendered?;
        let made =
            maker.make(&rendered, kind, raw.line, &mut outcome.documents, &mut outcome.ledger);
        lap(&mut outcome.stages.encode);
        made?;
        Ok(match reference {
            None => Checked::No,
            Some(reference) => {
                if maker.agrees(&rendered, kind, reference) {
                    Checked::Agrees
                } else {
                    Checked::Differs
                }
            }
        })
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

/// A block on its way to a thread.
struct Share {
    block: Block,
    /// How long reading it took.
    read: Duration,
    /// How many of its documents are encoded by the reference engine too.
    verify: u64,
}

/// Whether a document was compared with what the reference engine makes.
enum Checked {
    No,
    Agrees,
    Differs,
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
