//! Records in memory: tables, and values of an iterable.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::vec;

use arrow::array::RecordBatch;

use super::arrow_rules::fault;
use crate::error::Result;
use crate::report::ledger::Reason;
use crate::source::block::{BlockContent, BlockReader, add_rows};
use crate::source::formats::row_reader::BatchSlices;
use crate::util::control::Control;

/// Rows that are hashed between two checks of the cancel flag: some milliseconds of long texts.
const HASHED: usize = 8192;

/// Some records that the caller hands over.
#[derive(Debug)]
pub enum CallerRecords {
    /// Rows of a table.
    Rows(RecordBatch),
    /// The end: the reason that no more can be read.
    Broken(String),
    /// JSON values, each with its place in the bytes or the reason that it is invalid.
    Values {
        /// All values, end to end.
        bytes: Vec<u8>,
        /// One place for each value.
        places: Vec<std::result::Result<Range<usize>, String>>,
    },
}

/// Returns the next records; `None` after the last.
enum NextRecords {
    Table(vec::IntoIter<RecordBatch>),
    Caller(Box<dyn FnMut() -> Result<Option<CallerRecords>> + Send>),
}

impl NextRecords {
    fn next(&mut self) -> Result<Option<CallerRecords>> {
        match self {
            Self::Table(batches) => Ok(batches.next().map(|batch| match fault(&batch) {
                Some(fault) => CallerRecords::Broken(fault),
                None => CallerRecords::Rows(batch),
            })),
            Self::Caller(next) => next(),
        }
    }
}

/// Records that are in memory, in order.
pub struct MemoryRecords {
    /// The path in errors: `<table>`, `<records>`.
    pub(crate) name: Arc<Path>,
    /// The name of the container in reports.
    pub(crate) format: &'static str,
    /// The size in bytes; 0 where it is not known.
    pub(crate) size: u64,
    /// The identity of the records, where the caller knows it.
    known_as: Option<String>,
    supply: NextRecords,
}

impl fmt::Debug for MemoryRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("name", &self.name)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl MemoryRecords {
    /// The path in errors and reports.
    pub fn name(&self) -> Arc<Path> {
        Arc::clone(&self.name)
    }

    /// The rows of a table.
    pub fn table(batches: Vec<RecordBatch>) -> Self {
        let size = batches.iter().map(|batch| batch.get_array_memory_size() as u64).sum();
        Self { size, ..Self::new("table", NextRecords::Table(batches.into_iter())) }
    }

    /// The records of `next`, until it returns `None`. `format` is their name in reports.
    pub fn of(
        format: &'static str,
        next: impl FnMut() -> Result<Option<CallerRecords>> + Send + 'static,
    ) -> Self {
        Self::new(format, NextRecords::Caller(Box::new(next)))
    }

    fn new(format: &'static str, supply: NextRecords) -> Self {
        let name = Arc::from(Path::new(&format!("<{format}>")));
        Self { name, format, size: 0, known_as: None, supply }
    }

    /// Sets the identity of the records. Records of another process with the same name count as the same.
    #[must_use]
    pub fn known_as(self, name: Option<String>) -> Self {
        Self { known_as: name, ..self }
    }

    /// The identity of the records: the hash of a table, or a name from the caller; `None` where only
    /// reading them would tell.
    pub fn identity(&self, control: &Control) -> Result<Option<String>> {
        match &self.supply {
            NextRecords::Table(batches) => fingerprint(batches.as_slice(), control).map(Some),
            NextRecords::Caller(_) => Ok(self.known_as.clone()),
        }
    }
}

/// A hash of the batches of a table, in hexadecimal. It includes the ends of batches, since blocks end there
/// too.
fn fingerprint(batches: &[RecordBatch], control: &Control) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    for batch in batches {
        hasher.update(&(batch.num_rows() as u64).to_le_bytes());
        if let Some(fault) = fault(batch) {
            // A batch with a fault cannot be read, so only its fault counts.
            hasher.update(fault.as_bytes());
            continue;
        }
        for first in (0..batch.num_rows()).step_by(HASHED) {
            control.tick()?;
            let rows = HASHED.min(batch.num_rows() - first);
            add_rows(&mut hasher, &batch.slice(first, rows))?;
        }
    }
    Ok(hasher.finalize().to_hex().to_string())
}

/// The blocks of records in memory.
pub(crate) struct MemoryReader {
    supply: NextRecords,
    rows: Option<BatchSlices>,
    next_row: u64,
    position: u64,
}

impl MemoryReader {
    pub(crate) fn new(memory: MemoryRecords) -> Self {
        Self { supply: memory.supply, rows: None, next_row: 1, position: 0 }
    }

    /// The content for records that cannot be read further.
    fn broken(&self, message: String) -> BlockContent {
        BlockContent::Broken { line: self.next_row, reason: Reason::Damaged, message }
    }
}

impl BlockReader for MemoryReader {
    fn next_content(&mut self, _: &Control) -> Result<Option<BlockContent>> {
        loop {
            if let Some(part) = self.rows.as_mut().and_then(BatchSlices::next_part) {
                let first_row = self.next_row;
                self.next_row += part.num_rows() as u64;
                return Ok(Some(BlockContent::Rows { first_row, batch: part }));
            }
            match self.supply.next()? {
                None => return Ok(None),
                Some(CallerRecords::Broken(message)) => return Ok(Some(self.broken(message))),
                Some(CallerRecords::Rows(batch)) => {
                    self.position += batch.get_array_memory_size() as u64;
                    self.rows = Some(BatchSlices::new(batch));
                }
                Some(CallerRecords::Values { bytes, places }) => {
                    let first = self.next_row;
                    self.next_row += places.len() as u64;
                    self.position += bytes.len() as u64;
                    return Ok(Some(BlockContent::FromMemory { first, bytes, places }));
                }
            }
        }
    }

    fn position(&self) -> u64 {
        self.position
    }
}
