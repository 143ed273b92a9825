//! [`pack_memory`]: packs the caller's records in memory.

use std::path::Path;

use super::cache_entry::CacheEntry;
use super::pack_files::to_tables;
use super::records::Records;
use crate::config::{Inputs, Reading, Source, Validation};
use crate::error::Result;
use crate::pipeline::job::Job;
use crate::pipeline::runs::pack_files::pack_blocks;
use crate::pipeline::statistics::input_facts::InputFacts;
use crate::report::Report;
use crate::sink::MemoryTables;
use crate::source::{Blocks, MemoryRecords};
use crate::util::control::Control;

/// Packs records in memory into `tables`. Keeps their tokens in `cache` if they have an identity, as
/// [`pack_files`](crate::pipeline::pack_files) does for files.
pub fn pack_memory(
    mut job: Job,
    memory: MemoryRecords,
    reading: Reading,
    validation: Option<Validation>,
    cache: Option<&Path>,
    control: &Control,
    tables: &mut MemoryTables,
) -> Result<Report> {
    let inputs =
        Inputs { sources: vec![Source::of(Vec::new(), reading.clone())], ..Inputs::default() };
    job.validate(&inputs)?;
    let known = memory.identity(control)?.is_some() && job.transform.is_identified();
    let Some(cache) = cache.filter(|_| known) else {
        let about = InputFacts::of_memory(&job, &memory);
        let blocks = Blocks::of_memory(memory, reading);
        return pack_blocks(&job, blocks, about, validation, None, control, tables);
    };
    let records = Records::Memory(memory, Box::new(reading));
    let entry = CacheEntry::of(&job, &records, cache, control)?;
    entry.use_tokens_once(&mut job, records, control, |job, kept| {
        to_tables(job, kept, validation, control, tables)
    })
}
