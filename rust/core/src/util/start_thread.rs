//! Starts the threads of a call: the one place where the system can refuse a thread.
//!
//! A call owns its threads and joins them. Where the system gives no more (a limit on processes, a
//! container's limit on tasks), the caller does the work itself, or reports the error.

use std::io;
use std::num::NonZeroUsize;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// The threads that look at many small files: they wait for the file system most of the time.
pub(crate) const FILE_THREADS: NonZeroUsize = NonZeroUsize::new(16).expect("above zero");

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
    #[cfg(test)]
    let work = tests::with_same_limit(work);
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
    use std::cell::RefCell;
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    thread_local! {
        /// The number of threads that this thread, and those that it started, may still start.
        static LEFT: RefCell<Arc<AtomicUsize>> = RefCell::new(Arc::new(AtomicUsize::new(usize::MAX)));
    }

    /// Runs `work`, for which at most `most` threads can be started.
    pub(crate) fn with_at_most<T>(most: usize, work: impl FnOnce() -> T) -> T {
        let before = LEFT.replace(Arc::new(AtomicUsize::new(most)));
        let done = work();
        LEFT.set(before);
        done
    }

    /// `work` of a thread that counts the threads that it starts among those of this one.
    pub(super) fn with_same_limit<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
        let left = LEFT.with_borrow(Arc::clone);
        move || {
            LEFT.set(left);
            work()
        }
    }

    pub(super) fn allowed() -> io::Result<()> {
        let left = LEFT.with_borrow(Arc::clone);
        let taken = left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        taken.map(drop).map_err(|_| io::ErrorKind::WouldBlock.into())
    }
}
