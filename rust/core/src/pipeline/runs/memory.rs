//! [`pack_memory`]: records that the caller has in memory.

use crate::config::{Inputs, Reading, Source, Validation};
use crate::control::Control;
use crate::error::Result;
use crate::pipeline::accounts::about::About;
use crate::pipeline::job::Job;
use crate::pipeline::runs::files::pack_blocks;
use crate::report::Report;
use crate::sink::Tables;
use crate::source::{Blocks, Memory};

/// Packs records that are in memory into `tables`, as [`pack_files`](crate::pipeline::pack_files) does with those of files.
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
