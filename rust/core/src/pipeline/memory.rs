//! [`pack_memory`], [`pack_table`] and [`write_table`]: what the caller has in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use arrow::record_batch::RecordBatch;
use serde_json::json;

use super::dir::in_folder;
use super::packer::Packer;
use super::{About, Job, Outcome, Packing, pack_blocks};
use crate::assemble::{Layout, Sources, schema};
use crate::config::{Inputs, Options, Output, Reading, RowColumn, Source, Validation};
use crate::control::{Control, Phase};
use crate::document::{Documents, INPUTS, table};
use crate::error::Result;
use crate::ledger::Ledger;
use crate::ordered::ordered;
use crate::report::Report;
use crate::sink::{Sink, Tables};
use crate::source::{Block, Blocks, Memory, fingerprint};
use crate::store::{Log, Store};
use crate::timing::{Clock, Stage, Work};

/// Packs records that are in memory into `tables`, as [`pack_files`](super::pack_files) does with those of files.
pub fn pack_memory(
    job: &Job,
    memory: Memory,
    reading: Reading,
    validation: Option<Validation>,
    control: &Control,
    tables: &mut Tables,
) -> Result<Report> {
    let inputs =
        Inputs { sources: vec![Source::of(Vec::new(), reading.clone())], recursive: false };
    job.validate(&inputs)?;
    let about = About::of_memory(job, &memory);
    pack_blocks(job, Blocks::of_memory(memory, reading), (about, validation), control, tables)
}

/// Packs rows that are tokenized already into `tables`: batches with `input_ids`, and labels or a mask if any.
pub fn pack_table(
    options: &Options,
    batches: &[RecordBatch],
    validation: Option<Validation>,
    control: &Control,
    tables: &mut Tables,
) -> Result<Report> {
    options.validate()?;
    pack_rows(options, batches, (Store::default(), None, validation), control, tables)
}

/// Packs rows that are tokenized already into files in `output.dir`; runs again, goes on where it was stopped, and leaves
/// in the log what memory has no room for, as [`pack_dir`](super::pack_dir) does.
pub fn write_table(
    options: &Options,
    batches: &[RecordBatch],
    output: &Output,
    control: &Control,
) -> Result<Report> {
    options.validate()?;
    output.validate(&options.columns)?;
    let identity = json!({
        "fastpack": env!("CARGO_PKG_VERSION"),
        "inputs": { table::TABLE: { "place": 0, "records": fingerprint(batches, control)? } },
        "options": options,
        "output": output,
    });
    in_folder(output, &identity, (options.now.time(), options.max_lost), control, |folder| {
        let log = Arc::new(Log::open(&folder.blocks())?);
        let store = Store::over(Arc::clone(&log), output.memory);
        let kept = (store, Some(&*log), output.validation);
        let report = pack_rows(options, batches, kept, control, folder)?;
        folder.finish(&report.to_json(), BTreeMap::new(), None)?;
        Ok(report)
    })
}

/// Packs rows that are tokenized already into `sink`; `store` lies over the log, if there is one.
fn pack_rows(
    options: &Options,
    batches: &[RecordBatch],
    (store, log, validation): (Store, Option<&Log>, Option<Validation>),
    control: &Control,
    sink: &mut dyn Sink,
) -> Result<Report> {
    let started = Instant::now();
    let memory = Memory::table(batches.to_vec());
    let sources = Sources::new([memory.name()]);
    let layout = Layout::new(options, None, sources.clone())?;
    let packing = Packing::with_store(options, layout, store).with_validation(validation);
    let mut packer = Packer::new(packing, sink, control, started);
    let mut blocks = Blocks::of_memory(memory, Reading::default());
    let mut numbers = 0..;
    control.enter(Phase::Tokenize);
    let next = || {
        control.tick()?;
        Ok(numbers.next().zip(blocks.next_block()?))
    };
    let worker = || {
        |(number, block): (u64, Block)| {
            let outcome = tokens_of(&block, number, options, log)?;
            let read = outcome.ledger.read;
            control.count_block(0, read.documents, read.tokens);
            Ok(outcome)
        }
    };
    ordered(options.threads, next, worker, |outcome| packer.take(outcome))?;
    packer.finish(About::of_tokens(sources))
}

/// What a block of rows that are tokenized already comes to; taken from the log if it is there, and written there else.
fn tokens_of(block: &Block, number: u64, options: &Options, log: Option<&Log>) -> Result<Outcome> {
    let mut clock = Clock::start();
    let mut outcome = Outcome {
        documents: Documents::new(Arc::clone(&block.path), &[INPUTS]),
        ledger: Ledger::default(),
        work: Work::default(),
        place: None,
        fingerprint: log.map(|_| block.fingerprint()).transpose()?,
        share: None,
        left_out: Vec::new(),
    };
    clock.lap(Stage::Read);
    let known = log.map_or(Ok(false), |log| outcome.take_back(log, number, block))?;
    clock.lap(Stage::Keep);
    if !known && let (Some(rows), Some(first)) = (block.table(), block.records().next()) {
        let columns = table::Columns {
            input_ids: schema::name(RowColumn::InputIds),
            labels: schema::name(RowColumn::Labels),
            loss_weights: schema::name(RowColumn::LossWeights),
        };
        let (before, asked) = (first.line - 1, (options.train_on, options.on_bad_record));
        outcome.documents = table::read(rows, &columns, asked, before, &mut outcome.ledger)?;
        clock.lap(Stage::Parse);
        log.map_or(Ok(()), |log| outcome.write_down(log, number))?;
        clock.lap(Stage::Keep);
    }
    outcome.work.stages += clock.stop();
    Ok(outcome)
}
