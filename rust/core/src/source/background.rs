//! [`BackgroundIterator`]: items made by a background thread, a few ahead of the reader.

use std::fmt;
use std::io;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::util::start_thread;

/// Makes the next item; `None` after the last.
type ItemMaker<T> = Box<dyn FnMut() -> Option<T> + Send>;

/// Items made by a background thread, in order. The thread ends when this is dropped.
pub(super) struct BackgroundIterator<T> {
    items: Option<Receiver<T>>,
    thread: Option<JoinHandle<()>>,
    /// Makes the items on the reader's thread, if the system starts no other.
    make: Option<ItemMaker<T>>,
}

impl<T: Send + 'static> BackgroundIterator<T> {
    /// Starts the thread. It makes items until there are none, and keeps at most `ahead` that are not taken.
    pub(super) fn start(
        ahead: usize,
        make: impl FnMut() -> Option<T> + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, items) = sync_channel(ahead);
        // Shared, so that the closure survives if the thread cannot be started.
        let make: Arc<Mutex<Option<ItemMaker<T>>>> = Arc::new(Mutex::new(Some(Box::new(make))));
        let take = |make: &Mutex<Option<ItemMaker<T>>>| {
            make.lock().unwrap_or_else(PoisonError::into_inner).take()
        };
        let taken = Arc::clone(&make);
        let started = start_thread::start("fastpack-read", move || {
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

impl<T> BackgroundIterator<T> {
    /// The next item; `None` after the last.
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

impl<T> fmt::Debug for BackgroundIterator<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").field("thread", &self.thread).finish_non_exhaustive()
    }
}

impl<T> Drop for BackgroundIterator<T> {
    fn drop(&mut self) {
        self.items = None;
        if let Some(thread) = self.thread.take() {
            // A panic of an item that nobody waited for is dropped.
            thread.join().ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::start_thread::tests::with_at_most;

    #[test]
    fn items_come_in_order_with_a_thread_and_without() {
        for threads in [0, 1] {
            let mut numbers = 0..100;
            let items =
                with_at_most(threads, || BackgroundIterator::start(2, move || numbers.next()));
            let mut items = items.expect("what was not started is left");
            assert_eq!(items.thread.is_some(), threads == 1);
            let taken: Vec<u32> = std::iter::from_fn(|| items.next()).collect();
            assert_eq!(taken, (0..100).collect::<Vec<_>>());
            assert_eq!(items.next(), None);
        }
    }
}
