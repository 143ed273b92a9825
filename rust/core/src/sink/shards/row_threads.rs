//! [`RowThreads`]: the threads that encode the rows of a sink, and the bytes that they may have in hand.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::util::control::Control;
use crate::util::thread_pool::{TaskQueue, ThreadPool};

/// Bytes in hand before the first rows say more.
const ROOM: u64 = 48 << 20;

/// The threads that encode the rows of a sink. They end with it.
pub(crate) struct RowThreads {
    pool: ThreadPool,
    /// Bytes of rows, encoded or not, that are not written yet. The file that is being written reads it.
    pub(super) room: Arc<AtomicU64>,
    /// It is cancelled when the run is.
    pub(super) control: Arc<Control>,
}

impl RowThreads {
    /// One thread.
    pub(crate) fn new(control: &Control) -> Self {
        Self {
            pool: ThreadPool::new(NonZeroUsize::MIN),
            room: Arc::new(AtomicU64::new(ROOM)),
            control: Arc::new(control.with_same_flag()),
        }
    }

    /// Allows this number of threads, and these bytes in hand, from now on.
    pub(crate) fn limit(&self, threads: NonZeroUsize, bytes: u64) {
        self.pool.queue().set_most(threads);
        self.room.store(bytes, Relaxed);
    }

    /// The number of threads.
    pub(crate) fn number(&self) -> NonZeroUsize {
        self.pool.queue().most()
    }

    /// Ends the threads, each after its current task.
    pub(crate) fn end(&mut self) {
        self.pool.end();
    }

    /// The queue of their tasks.
    pub(super) fn queue(&self) -> &TaskQueue {
        self.pool.queue()
    }
}
