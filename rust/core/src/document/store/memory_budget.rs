//! [`MemoryBudget`]: once the documents in memory exceed it, all of them are in the token log alone.

use std::sync::Arc;

use super::token_log::TokenLog;

/// The budget of the documents in memory, and the log that they are read back from.
#[derive(Debug)]
pub(super) struct MemoryBudget {
    pub(super) log: Arc<TokenLog>,
    /// The budget of documents in memory, in bytes.
    pub(super) bytes: u64,
    /// True if the budget was exceeded, so that all documents are in the log only.
    is_exceeded: bool,
}

impl MemoryBudget {
    pub(super) fn new(log: Arc<TokenLog>, bytes: u64) -> Self {
        Self { log, bytes, is_exceeded: false }
    }

    /// Notes that documents take `resident` bytes of memory. True if they are, or ever were, more than the budget.
    pub(super) fn note_use(&mut self, resident: u64) -> bool {
        if resident > self.bytes && !self.is_exceeded {
            self.is_exceeded = true;
            self.log.expect_reads();
        }
        self.is_exceeded
    }

    /// True if documents were ever more than the budget.
    pub(super) fn is_exceeded(&self) -> bool {
        self.is_exceeded
    }

    /// Bytes of memory that the documents of neighbouring rows may take.
    pub(super) fn window(&self) -> u64 {
        /// Enough that a pass over them is worth starting threads for.
        const LEAST: u64 = 32 << 20;
        if self.is_exceeded { (self.bytes / 2).max(LEAST) } else { u64::MAX }
    }

    /// Bytes that documents which take `resident` bytes of memory leave free.
    pub(super) fn spare(&self, resident: u64) -> u64 {
        if self.is_exceeded { self.bytes / 2 } else { self.bytes.saturating_sub(resident) }
    }
}
