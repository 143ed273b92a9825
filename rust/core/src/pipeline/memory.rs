//! [`pack_memory`], [`pack_table`] and [`write_table`]: what the caller has in memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow::record_batch::RecordBatch;
use serde_json::json;

use super::dir::in_folder;
use super::{About, Job, Outcome, Packing, pack_blocks, split};
use crate::assemble::{Layout, Sources, schema};
use crate::config::{Inputs, Options, Output, Reading, RowColumn, Source, Validation};
use crate::control::{Control, Phase};
use crate::document::{INPUTS, table};
use crate::error::Result;
use crate::ledger::Ledger;
use crate::report::Report;
use crate::sink::{Sink, Tables};
use crate::source::{Blocks, Memory, fingerprint};
use crate::timing::Work;

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
    pack_rows(options, batches, validation, control, tables)
}

/// Packs rows that are tokenized already into files in `output.dir`; runs again, and goes on behind the files that are
/// whole, as [`pack_dir`](super::pack_dir) does.
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
        let report = pack_rows(options, batches, output.validation, control, folder)?;
        folder.finish(&report.to_json(), BTreeMap::new(), None)?;
        Ok(report)
    })
}

/// Packs rows that are tokenized already into `sink`.
fn pack_rows(
    options: &Options,
    batches: &[RecordBatch],
    validation: Option<Validation>,
    control: &Control,
    sink: &mut dyn Sink,
) -> Result<Report> {
    let started = Instant::now();
    let sources = Sources::new([Arc::from(Path::new(table::TABLE))]);
    let layout = Layout::new(options, None, sources.clone())?;
    let mut packing = Packing::new(options, layout).with_validation(validation);
    let columns = table::Columns {
        input_ids: schema::name(RowColumn::InputIds),
        labels: schema::name(RowColumn::Labels),
        loss_weights: schema::name(RowColumn::LossWeights),
    };
    let mut first_row = 0;
    control.enter(Phase::Tokenize);
    for batch in batches {
        control.tick()?;
        let mut ledger = Ledger::default();
        let documents = table::read(batch, &columns, options.train_on, first_row, &mut ledger)?;
        first_row += batch.num_rows() as u64;
        control.count_block(0, documents.len() as u64, documents.tokens(INPUTS));
        packing.gather(Outcome {
            documents,
            ledger,
            work: Work::default(),
            place: None,
            fingerprint: None,
        })?;
    }
    split::pack_into(packing, sink, About::of_tokens(sources), control, started)
}
