//! Runs two pieces of work at once while a tokenizer is loaded: with two cores, loading takes a quarter less
//! time.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder};

/// Runs `one` on this thread and `other` on a new thread, or after `one` if the system gives no more threads.
pub(crate) fn both<A, B: Send>(
    one: impl FnOnce() -> A,
    other: impl FnOnce() -> B + Send,
) -> (A, B) {
    let waiting = Mutex::new(Some(other));
    let work = || {
        let other = waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        other.expect("it waits until it is done, once")()
    };
    thread::scope(|scope| {
        let started = Builder::new().name("fastpack-load".to_owned()).spawn_scoped(scope, work);
        let one = one();
        let other = match started {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(_) => work(),
        };
        (one, other)
    })
}
