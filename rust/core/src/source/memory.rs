//! Records that are in memory: tables, and values that the caller makes on the way.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;

use super::block::{Content, Reader};
use super::rows::Parts;
use crate::error::Result;

/// Some records that the caller hands over.
#[derive(Debug)]
pub enum Given {
    /// Rows of a table.
    Rows(RecordBatch),
    /// Values as JSON: where in the bytes each of them stands, or why it is none.
    Values {
        /// All values, end to end.
        bytes: Vec<u8>,
        /// A place a value.
        places: Vec<std::result::Result<Range<usize>, String>>,
    },
}

/// What gives the next records; nothing after the last.
type Next = Box<dyn FnMut() -> Result<Option<Given>> + Send>;

/// Records that are in memory, in order.
pub struct Memory {
    /// What errors call the place: `<table>`, `<records>`.
    pub(super) name: Arc<Path>,
    /// What reports call the container.
    pub(super) format: &'static str,
    /// Bytes in all, 0 where nobody knows.
    pub(super) size: u64,
    next: Next,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("name", &self.name)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl Memory {
    /// What errors and reports call the place.
    pub fn name(&self) -> Arc<Path> {
        Arc::clone(&self.name)
    }

    /// The rows of a table.
    pub fn table(batches: Vec<RecordBatch>) -> Self {
        let size = batches.iter().map(|batch| batch.get_array_memory_size() as u64).sum();
        let mut batches = batches.into_iter();
        let next = move || Ok(batches.next().map(Given::Rows));
        Self { size, ..Self::of("table", next) }
    }

    /// What `next` gives until it gives nothing; `format` is what reports call it.
    pub fn of(
        format: &'static str,
        next: impl FnMut() -> Result<Option<Given>> + Send + 'static,
    ) -> Self {
        let name = Arc::from(Path::new(&format!("<{format}>")));
        Self { name, format, size: 0, next: Box::new(next) }
    }
}

/// The blocks of records in memory.
pub(super) struct MemoryReader {
    next: Next,
    rows: Option<Parts>,
    next_row: u64,
    position: u64,
}

impl MemoryReader {
    pub(super) fn new(memory: Memory) -> Self {
        Self { next: memory.next, rows: None, next_row: 1, position: 0 }
    }
}

impl Reader for MemoryReader {
    fn next_content(&mut self) -> Result<Option<Content>> {
        loop {
            if let Some(part) = self.rows.as_mut().and_then(Parts::next_part) {
                let first_row = self.next_row;
                self.next_row += part.num_rows() as u64;
                return Ok(Some(Content::Rows { first_row, batch: part }));
            }
            match (self.next)()? {
                None => return Ok(None),
                Some(Given::Rows(batch)) => {
                    self.position += batch.get_array_memory_size() as u64;
                    self.rows = Some(Parts::new(batch));
                }
                Some(Given::Values { bytes, places }) => {
                    let first = self.next_row;
                    self.next_row += places.len() as u64;
                    self.position += bytes.len() as u64;
                    return Ok(Some(Content::Given { first, bytes, places }));
                }
            }
        }
    }

    fn position(&self) -> u64 {
        self.position
    }
}
