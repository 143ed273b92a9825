//! [`ReferenceCheck`]: some documents, evenly spread over the input, are encoded by the reference engine too. A difference ends the run.

use std::path::Path;

use fastpack_tokenize::{Engine, LONGEST_COMPARED, Tokenizer};

use crate::error::{Error, Result};
use crate::pipeline::job::Job;
use crate::util::verified_places::places_before;

/// The comparison of a run with the reference engine.
pub(super) struct ReferenceCheck {
    /// The tokenizer with the reference engine; `None` where no document is compared.
    pub(super) reference: Option<Tokenizer>,
    /// The number of documents that are compared.
    documents: u64,
}

impl ReferenceCheck {
    /// The comparison that `verify` asks for. Only a compiled engine can differ from the reference.
    pub(super) fn of(job: &Job) -> Result<Self> {
        let compiled = job.tokenizer.as_ref().filter(|it| it.engine() == Engine::Compiled);
        let reference = compiled.filter(|_| job.options.work.verify > 0);
        let reference = reference.map(Tokenizer::with_reference_engine).transpose()?;
        let documents = reference.as_ref().map_or(0, |_| u64::from(job.options.work.verify));
        Ok(Self { reference, documents })
    }

    /// The number of documents that are compared of a block of `size` bytes, which has `before` of `all` bytes before it.
    pub(super) fn documents_of(&self, size: u64, before: u64, all: u64) -> u64 {
        let places = |before| places_before(before, all, self.documents);
        places(before + size) - places(before)
    }
}

/// True if texts of at most `longest` bytes are compared: the reference engine takes too long for longer ones.
pub(super) fn is_compared(longest: usize) -> bool {
    longest <= LONGEST_COMPARED
}

/// The error of a document that the engines encode differently.
pub(super) fn difference(path: &Path, line: u64) -> Error {
    Error::Differs(format!("{}:{line}", path.display()))
}

/// The result of comparing a document with the reference engine.
pub(super) enum Verification {
    NotCompared,
    Agrees,
    Differs,
}

impl Verification {
    /// The result of a comparison.
    pub(super) fn of(agrees: bool) -> Self {
        if agrees { Self::Agrees } else { Self::Differs }
    }
}
