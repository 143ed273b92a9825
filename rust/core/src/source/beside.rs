//! [`Beside`]: items made on a thread of their own, a few ahead of whoever takes them.

use std::io;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{Builder, JoinHandle};

/// Items made on a thread of their own, in order. The thread ends with this.
#[derive(Debug)]
pub(super) struct Beside<T> {
    items: Option<Receiver<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Beside<T> {
    /// Starts the thread, which makes items until there are none, at most `ahead` before they are taken.
    pub(super) fn start(
        ahead: usize,
        mut make: impl FnMut() -> Option<T> + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, items) = sync_channel(ahead);
        let work = move || {
            while let Some(item) = make() {
                if sender.send(item).is_err() {
                    break;
                }
            }
        };
        let thread = Builder::new().name("fastpack-read".to_owned()).spawn(work)?;
        Ok(Self { items: Some(items), thread: Some(thread) })
    }
}

impl<T> Beside<T> {
    /// The next item; nothing after the last.
    pub(super) fn next(&mut self) -> Option<T> {
        let item = self.items.as_ref()?.recv().ok();
        if item.is_none()
            && let Some(Err(panic)) = self.thread.take().map(JoinHandle::join)
        {
            resume_unwind(panic);
        }
        item
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
