//! [`RequestThreads`]: the threads on which the requests of one call run.

use std::fmt;
use std::future::Future;
use std::io;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;

use super::cancelled_or_changed::CancelledOrChanged;

/// Threads that move bytes and decrypt them: two keep up with ten gigabits a second.
const THREADS: usize = 2;

/// The interval at which a waiting reader checks for a cancel: a fourth of the time that a user may wait.
const POLL: Duration = Duration::from_millis(50);

/// The time that ending the threads may take: they finish the copy at hand. A look-up of a name that hangs is left
/// behind.
const ENDING: Duration = Duration::from_millis(100);

/// The threads of the requests of one call. They end when this is dropped.
pub(crate) struct RequestThreads {
    runtime: Option<Runtime>,
    /// The process that started the threads. In a forked child there are none.
    process: u32,
    cancelled: Arc<AtomicBool>,
}

impl fmt::Debug for RequestThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").field("process", &self.process).finish_non_exhaustive()
    }
}

impl RequestThreads {
    /// Starts the threads. Once `cancelled` is set, every wait for a task fails.
    pub(super) fn start(cancelled: Arc<AtomicBool>) -> io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).thread_name("fastpack-net").enable_all();
        Ok(Self { runtime: Some(builder.build()?), process: process::id(), cancelled })
    }

    /// Begins a task.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Pending<T> {
        let (sender, receiver) = sync_channel(1);
        let runtime = self.runtime.as_ref().expect("it is taken only when this is dropped");
        let task = runtime.spawn(async move {
            // Nobody may wait for it any more.
            let _ = sender.send(work.await);
        });
        Pending { receiver, task: task.abort_handle(), cancelled: Arc::clone(&self.cancelled) }
    }

    /// Runs a task to its end.
    pub(super) fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = io::Result<T>> + Send + 'static,
    ) -> io::Result<T> {
        self.begin(work).wait()?
    }

    /// Fails if the call was cancelled.
    pub(super) fn tick(&self) -> io::Result<()> {
        if self.cancelled.load(Ordering::Relaxed) {
            Err(CancelledOrChanged::Cancelled.into())
        } else {
            Ok(())
        }
    }
}

impl Drop for RequestThreads {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        if self.process == process::id() {
            runtime.shutdown_timeout(ENDING);
        } else {
            // After a fork there is no thread that could be waited for.
            std::mem::forget(runtime);
        }
    }
}

/// The result of a task. The task ends if this is dropped.
#[derive(Debug)]
pub(crate) struct Pending<T> {
    receiver: Receiver<T>,
    task: AbortHandle,
    cancelled: Arc<AtomicBool>,
}

impl<T> Pending<T> {
    /// Waits for the result, or for the call to be cancelled.
    pub(super) fn wait(self) -> io::Result<T> {
        loop {
            match self.receiver.recv_timeout(POLL) {
                Ok(done) => return Ok(done),
                Err(RecvTimeoutError::Timeout) if self.cancelled.load(Ordering::Relaxed) => {
                    return Err(CancelledOrChanged::Cancelled.into());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(io::Error::other("a task of a request ended without a result"));
                }
            }
        }
    }
}

impl<T> Pending<T> {
    /// Waits for the result, but no longer than this, whether or not the call was cancelled.
    pub(super) fn wait_for(self, most: Duration) -> Option<T> {
        self.receiver.recv_timeout(most).ok()
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_cancelled_call_waits_no_longer() {
        let cancelled = Arc::new(AtomicBool::new(false));
        let tasks = RequestThreads::start(Arc::clone(&cancelled)).expect("threads");
        let pending = tasks.begin(async { tokio::time::sleep(Duration::from_secs(60)).await });
        cancelled.store(true, Ordering::Relaxed);
        let since = Instant::now();
        let error = pending.wait().expect_err("it was cancelled");
        assert_eq!(CancelledOrChanged::of(&error), Some(CancelledOrChanged::Cancelled));
        drop(tasks);
        assert!(since.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn tasks_give_what_they_make() {
        let tasks = RequestThreads::start(Arc::default()).expect("threads");
        assert_eq!(tasks.run(async { Ok(3) }).expect("a number"), 3);
    }
}
