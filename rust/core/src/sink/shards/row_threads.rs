//! [`RowThreads`]: the threads that encode the rows of a sink, and the bytes that they may have in hand.

use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::disk_file::CachedBytes;
use crate::error::Result;
use crate::util::control::Control;
use crate::util::thread_pool::{TaskQueue, ThreadPool};

/// Bytes in hand before the first rows say more.
const ROOM: u64 = 48 << 20;

/// The interval at which a waiting call looks for Ctrl-C.
pub(super) const POLL: Duration = Duration::from_millis(50);

/// The threads that encode the rows of a sink. They end with it.
pub(crate) struct RowThreads {
    pool: ThreadPool,
    /// The rows of all files that are being written.
    pub(super) in_hand: Arc<BytesInHand>,
    /// The bytes of all files that may stay in the system's cache.
    pub(super) cached: Arc<CachedBytes>,
    /// It is cancelled when the run is.
    pub(super) control: Arc<Control>,
}

impl RowThreads {
    /// One thread.
    pub(crate) fn new(control: &Control) -> Self {
        Self {
            pool: ThreadPool::new(NonZeroUsize::MIN),
            in_hand: Arc::new(BytesInHand::with_room(ROOM)),
            cached: Arc::new(CachedBytes::of_free_memory()),
            control: Arc::new(control.with_same_flag()),
        }
    }

    /// Allows this number of threads, and these bytes in hand, from now on.
    pub(crate) fn limit(&self, threads: NonZeroUsize, bytes: u64) {
        self.pool.queue().set_most(threads);
        self.in_hand.state().room = bytes;
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
    pub(in crate::sink) fn queue(&self) -> &TaskQueue {
        self.pool.queue()
    }
}

/// The bytes of rows, encoded or not, that are not written yet, and the number that there may be.
pub(super) struct BytesInHand {
    state: Mutex<InHand>,
    fewer: Condvar,
}

struct InHand {
    bytes: u64,
    room: u64,
}

impl BytesInHand {
    fn with_room(room: u64) -> Self {
        Self { state: Mutex::new(InHand { bytes: 0, room }), fewer: Condvar::new() }
    }

    /// Counts `after` bytes of a file where there were `before`.
    pub(super) fn change(&self, before: u64, after: u64) {
        let mut state = self.state();
        state.bytes = state.bytes + after - before;
        drop(state);
        if after < before {
            self.fewer.notify_all();
        }
    }

    /// Waits until there is room for more, or nothing in hand. `look` is called meanwhile, and ends it by a failure.
    pub(super) fn wait_for_room(&self, look: impl Fn() -> Result<()>) -> Result<()> {
        loop {
            look()?;
            let state = self.state();
            if state.bytes <= state.room || state.bytes == 0 {
                return Ok(());
            }
            let waited = self.fewer.wait_timeout(state, POLL);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn state(&self) -> MutexGuard<'_, InHand> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
