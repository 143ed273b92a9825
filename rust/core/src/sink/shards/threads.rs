//! [`RowThreads`]: the threads that encode the rows of a sink, and how much they may have in hand.

use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::util::control::Control;
use crate::util::thread_pool::{TaskQueue, ThreadPool};

/// Bytes in hand, unless the run says more: a row group is encoded while the next one is filled, and another is written.
const ROOM: u64 = 48 << 20;

/// The threads that encode the rows of a sink. They end with it.
pub(crate) struct RowThreads {
    pool: ThreadPool,
    threads: NonZeroUsize,
    /// Bytes of rows, encoded or not, that are not written yet.
    pub(super) room: u64,
    /// It is cancelled when the run is.
    pub(super) control: Arc<Control>,
}

impl RowThreads {
    /// One thread.
    pub(crate) fn new(control: &Control) -> Self {
        Self {
            pool: ThreadPool::new(NonZeroUsize::MIN),
            threads: NonZeroUsize::MIN,
            room: ROOM,
            control: Arc::new(control.with_same_flag()),
        }
    }

    /// So many threads, which may have so many bytes in hand, from the next shard on.
    pub(crate) fn limit(&mut self, threads: NonZeroUsize, bytes: u64) {
        if threads != self.threads {
            self.pool = ThreadPool::new(threads);
            self.threads = threads;
        }
        self.room = bytes.max(ROOM);
    }

    /// The number of threads.
    pub(crate) fn number(&self) -> NonZeroUsize {
        self.threads
    }

    /// The queue of their tasks.
    pub(super) fn queue(&self) -> &TaskQueue {
        self.pool.queue()
    }
}
