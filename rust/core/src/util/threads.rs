//! Starts the threads of a call: the one place where the system can refuse a thread.
//!
//! A call owns its threads and joins them. Where the system gives no more (a limit on processes, a
//! container's limit on tasks), the caller does the work itself, or reports the error.

use std::io;
use std::num::NonZeroUsize;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// The threads that look at many small files: they wait for the file system most of the time.
pub(crate) const WAITING: NonZeroUsize = NonZeroUsize::new(16).expect("above zero");

/// Starts a thread that runs `work`.
///
/// # Errors
///
/// The error of the system, if it starts none.
pub fn start<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    allowed()?;
    Builder::new().name(name.to_owned()).spawn(work)
}

/// Starts a thread that runs `work` and ends within `scope`.
pub(crate) fn start_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    allowed()?;
    Builder::new().name(name.to_owned()).spawn_scoped(scope, work)
}

#[cfg(not(test))]
#[expect(clippy::unnecessary_wraps, reason = "tests refuse threads here")]
fn allowed() -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
fn allowed() -> io::Result<()> {
    tests::allowed()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;
    use std::io;

    thread_local! {
        /// The number of threads that this thread may still start.
        static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
    }

    /// Runs `work`, for which at most `most` threads can be started.
    pub(crate) fn with_at_most<T>(most: usize, work: impl FnOnce() -> T) -> T {
        LEFT.set(most);
        let done = work();
        LEFT.set(usize::MAX);
        done
    }

    pub(super) fn allowed() -> io::Result<()> {
        let left = LEFT.get().checked_sub(1).ok_or(io::ErrorKind::WouldBlock)?;
        LEFT.set(left);
        Ok(())
    }
}
