//! [`Records`]: the input of a run, files or records in memory.

use crate::config::{Reading, Source};
use crate::pipeline::job::Job;
use crate::pipeline::statistics::input_facts::InputFacts;
use crate::source::{Blocks, FoundFiles, MemoryRecords};

/// The input of a run.
pub(super) enum Records {
    /// Files, which can be read any number of times.
    Files(FoundFiles),
    /// Records in memory, which can be read once.
    Memory(MemoryRecords, Box<Reading>),
}

impl Records {
    /// The facts of a report about them before they are read.
    pub(super) fn about(&self, job: &Job) -> InputFacts {
        match self {
            Self::Files(found) => InputFacts::new(job, found),
            Self::Memory(memory, _) => InputFacts::of_memory(job, memory),
        }
    }

    /// Their sources.
    pub(super) fn sources(&self) -> Vec<Source> {
        match self {
            Self::Files(found) => found.sources.clone(),
            Self::Memory(_, reading) => vec![Source::of(Vec::new(), (**reading).clone())],
        }
    }

    /// The files, if the job draws documents by the shares of their sources.
    pub(super) fn drawn_from(&self, job: &Job) -> Option<FoundFiles> {
        match self {
            Self::Files(found) if job.options.rows.shares.is_some() => Some(found.clone()),
            _ => None,
        }
    }

    /// Their blocks.
    pub(super) fn into_blocks(self) -> Blocks {
        match self {
            Self::Files(found) => Blocks::new(found),
            Self::Memory(memory, reading) => Blocks::of_memory(memory, *reading),
        }
    }
}
