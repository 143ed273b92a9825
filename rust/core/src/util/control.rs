//! The cancel flag and the counters that a run shares with the caller that waits for it.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};

/// The phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Reading, rendering and tokenizing.
    Tokenize,
    /// Deciding which documents share a row.
    Plan,
    /// Building rows and handing them over.
    Write,
}

impl Phase {
    /// The name that progress reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tokenize => "tokenize",
            Self::Plan => "plan",
            Self::Write => "write",
        }
    }
}

/// A reading of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The phase of the run.
    pub phase: Phase,
    /// Input bytes that were processed.
    pub bytes: u64,
    /// Input bytes in total; 0 while unknown.
    pub total_bytes: u64,
    /// Documents made.
    pub documents: u64,
    /// Tokens made.
    pub tokens: u64,
    /// Rows handed over.
    pub rows: u64,
}

/// The state shared by a run and its caller: the caller cancels and reads, the run counts.
#[derive(Debug, Default)]
pub struct Control {
    cancelled: Arc<AtomicBool>,
    phase: AtomicU8,
    bytes: AtomicU64,
    total_bytes: AtomicU64,
    documents: AtomicU64,
    tokens: AtomicU64,
    rows: AtomicU64,
    warning: OnceLock<String>,
}

impl Control {
    /// Another control, which is cancelled with this one.
    pub(crate) fn with_same_flag(&self) -> Self {
        Self { cancelled: self.flag(), ..Self::default() }
    }

    /// Asks the run to stop at the end of the current document.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// True if the caller asked the run to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// The cancel flag itself, borrowed.
    pub(crate) fn cancelled(&self) -> &AtomicBool {
        &self.cancelled
    }

    /// The cancel flag itself, shared.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancelled)
    }

    /// Fails with [`Error::Cancelled`] once [`Control::cancel`] was called; every long loop calls it.
    pub fn tick(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// A reading of the counters.
    pub fn progress(&self) -> Progress {
        let phase = match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Tokenize,
            1 => Phase::Plan,
            _ => Phase::Write,
        };
        Progress {
            phase,
            bytes: self.bytes.load(Ordering::Relaxed),
            total_bytes: self.total_bytes.load(Ordering::Relaxed),
            documents: self.documents.load(Ordering::Relaxed),
            tokens: self.tokens.load(Ordering::Relaxed),
            rows: self.rows.load(Ordering::Relaxed),
        }
    }

    /// A warning for the caller before the end of the run, if there is one.
    pub fn warning(&self) -> Option<&str> {
        self.warning.get().map(String::as_str)
    }

    /// Tells the caller something while the run goes on. Only the first such message is kept.
    pub(crate) fn warn(&self, message: String) {
        self.warning.get_or_init(|| message);
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    pub(crate) fn expect_bytes(&self, total: u64) {
        self.total_bytes.store(total, Ordering::Relaxed);
    }

    pub(crate) fn count_block(&self, bytes: u64, documents: u64, tokens: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.documents.fetch_add(documents, Ordering::Relaxed);
        self.tokens.fetch_add(tokens, Ordering::Relaxed);
    }

    pub(crate) fn count_rows(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }
}
