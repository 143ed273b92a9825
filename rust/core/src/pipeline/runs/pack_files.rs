//! [`pack_files`]: packs files into tables in memory.

use std::path::Path;
use std::time::Instant;

use super::cache_entry::{CacheEntry, KeptRecords};
use super::records::Records;
use super::repack::{KeptRows, pack_kept};
use crate::config::{Inputs, Shares, Validation};
use crate::error::{Error, Result};
use crate::pipeline::documents::tokenized_blocks::BlockTokenizer;
use crate::pipeline::job::Job;
use crate::pipeline::rows::planned_packing::Packing;
use crate::pipeline::rows::sink_packer::SinkPacker;
use crate::pipeline::statistics::input_facts::InputFacts;
use crate::report::Report;
use crate::sink::{MemoryTables, Sink};
use crate::source::{Blocks, FoundFiles, discover};
use crate::util::control::Control;

/// Packs all of `inputs` into `tables`. Sets documents aside by `validation`.
///
/// With a folder `cache`, tokens are taken from there if they exist, and are kept there otherwise, unless a
/// function of the caller has no identity.
pub fn pack_files(
    mut job: Job,
    inputs: &Inputs,
    validation: Option<Validation>,
    cache: Option<&Path>,
    control: &Control,
    tables: &mut MemoryTables,
) -> Result<Report> {
    job.validate(inputs)?;
    let found = discover(inputs, control)?;
    if let Some(shares) = &job.options.rows.shares {
        refuse_with_shares(shares, "cache_dir", cache.is_some())?;
    }
    let Some(cache) = cache.filter(|_| job.transform.is_identified()) else {
        let about = InputFacts::new(&job, &found);
        let drawn = job.options.rows.shares.is_some().then(|| found.clone());
        let blocks = Blocks::new(found);
        return pack_blocks(&job, blocks, about, validation, drawn.as_ref(), control, tables);
    };
    let records = Records::Files(found.clone());
    let entry = CacheEntry::of(&job, &records, cache, control)?;
    entry.use_tokens(&mut job, &found, control, |job, kept| {
        *tables = MemoryTables::default();
        to_tables(job, kept, validation, control, tables)
    })
}

/// Refuses an option beside shares, if it `is_set`.
pub(super) fn refuse_with_shares(
    shares: &Shares,
    option: &'static str,
    is_set: bool,
) -> Result<()> {
    if !is_set {
        return Ok(());
    }
    let reason = format!("is given beside `{option}`; leave one of them out");
    Err(Error::option(shares.option(), reason))
}

/// Packs kept tokens into `tables`.
pub(super) fn to_tables(
    job: &Job,
    kept: KeptRecords<'_>,
    validation: Option<Validation>,
    control: &Control,
    tables: &mut MemoryTables,
) -> Result<Report> {
    let KeptRecords { tokens, about, sources, .. } = kept;
    let rows = KeptRows { layout: job.layout(sources)?, validation, about };
    pack_kept(tokens, &job.options, rows, &mut |_| (), control, tables)
}

/// Packs all of `blocks` into `sink`.
pub(super) fn pack_blocks(
    job: &Job,
    mut blocks: Blocks,
    mut about: InputFacts,
    validation: Option<Validation>,
    drawn: Option<&FoundFiles>,
    control: &Control,
    sink: &mut dyn Sink,
) -> Result<Report> {
    let started = Instant::now();
    let packing = Packing::new(&job.options, job.layout(about.sources.clone())?);
    let packing = packing.with_validation(validation)?.with_shares(drawn)?;
    let mut packer = SinkPacker::new(packing, sink, control, started);
    let block_tokenizer =
        BlockTokenizer::new(job, control).hashing(validation.is_some() || drawn.is_some());
    let seen = block_tokenizer.read(&mut blocks, None, |outcome| packer.take(outcome))?;
    about.read(job, seen);
    packer.finish(about)
}
