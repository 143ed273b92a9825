//! [`Beside`]: items made on a thread of their own, a few ahead of whoever takes them.

use std::fmt;
use std::io;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::threads;

/// Makes the next item; nothing after the last.
type Make<T> = Box<dyn FnMut() -> Option<T> + Send>;

/// Items made on a thread of their own, in order. The thread ends with this.
pub(super) struct Beside<T> {
    items: Option<Receiver<T>>,
    thread: Option<JoinHandle<()>>,
    /// Makes the items where they are taken, if the system starts no thread.
    make: Option<Make<T>>,
}

impl<T: Send + 'static> Beside<T> {
    /// Starts the thread, which makes items until there are none, at most `ahead` before they are taken.
    pub(super) fn start(
        ahead: usize,
        make: impl FnMut() -> Option<T> + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, items) = sync_channel(ahead);
        // A thread that is not started keeps nothing of what it would have done.
        let make: Arc<Mutex<Option<Make<T>>>> = Arc::new(Mutex::new(Some(Box::new(make))));
        let take = |make: &Mutex<Option<Make<T>>>| {
            make.lock().unwrap_or_else(PoisonError::into_inner).take()
        };
        let taken = Arc::clone(&make);
        let started = threads::start("fastpack-read", move || {
            let Some(mut make) = take(&taken) else { return };
            while let Some(item) = make() {
                if sender.send(item).is_err() {
                    break;
                }
            }
        });
        match started {
            Ok(thread) => Ok(Self { items: Some(items), thread: Some(thread), make: None }),
            Err(refused) => {
                let make = Some(take(&make).ok_or(refused)?);
                Ok(Self { items: None, thread: None, make })
            }
        }
    }
}

impl<T> Beside<T> {
    /// The next item; nothing after the last.
    pub(super) fn next(&mut self) -> Option<T> {
        if let Some(make) = &mut self.make {
            let item = make();
            if item.is_none() {
                self.make = None;
            }
            return item;
        }
        let item = self.items.as_ref()?.recv().ok();
        if item.is_none()
            && let Some(Err(panic)) = self.thread.take().map(JoinHandle::join)
        {
            resume_unwind(panic);
        }
        item
    }
}

impl<T> fmt::Debug for Beside<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beside").field("thread", &self.thread).finish_non_exhaustive()
    }
}

impl<T> Drop for Beside<T> {
    fn drop(&mut self) {
        self.items = None;
        if let Some(thread) = self.thread.take() {
            // A panic that nobody waited for has nobody to tell.
            thread.join().ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::tests::with_at_most;

    #[test]
    fn items_come_in_order_with_a_thread_and_without() {
        for threads in [0, 1] {
            let mut numbers = 0..100;
            let items = with_at_most(threads, || Beside::start(2, move || numbers.next()));
            let mut items = items.expect("what was not started is left");
            assert_eq!(items.thread.is_some(), threads == 1);
            let taken: Vec<u32> = std::iter::from_fn(|| items.next()).collect();
            assert_eq!(taken, (0..100).collect::<Vec<_>>());
            assert_eq!(items.next(), None);
        }
    }
}
