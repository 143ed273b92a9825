//! Works on many threads and returns results in input order, so that threads never change the output.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

#[cfg(test)]
use crate::util::simulation::recording::{ItemStep, begin_call};
use crate::util::start_thread;

/// Items that are finished early, for each of the first threads: enough that no thread waits for a slow one, few enough to bound memory.
const EARLY_ITEMS_PER_THREAD: usize = 3;

/// Threads that have items finished early. Of more threads, those that wait for a slow one are a small part.
const THREADS_WITH_EARLY_ITEMS: usize = 16;

/// The most items that are unfinished, or finished and not handed over.
fn window(threads: usize) -> usize {
    threads + EARLY_ITEMS_PER_THREAD * threads.min(THREADS_WITH_EARLY_ITEMS)
}

/// Pulls items from `source`, works on them on `threads` threads, and hands the results to `consume` in the
/// order of the items, on the calling thread.
///
/// `worker` makes the function of one thread. The first failure in the order of the items ends the work and
/// is returned, whichever thread met it first. At most a few items for each thread are unfinished, so a slow
/// consumer holds up the source.
pub(crate) fn ordered<T, U, E, W>(
    threads: NonZeroUsize,
    source: impl FnMut() -> Result<Option<T>, E> + Send,
    worker: impl Fn() -> W + Sync,
    consume: impl FnMut(U) -> Result<(), E>,
) -> Result<(), E>
where
    T: Send,
    U: Send,
    E: Send,
    W: FnMut(T) -> Result<U, E>,
{
    ordered_within(threads, usize::MAX, source, worker, consume)
}

/// [`ordered`] with at most `most` unfinished items, for items that take much memory. One at a time is done on the calling thread.
pub(crate) fn ordered_within<T, U, E, W>(
    threads: NonZeroUsize,
    most: usize,
    source: impl FnMut() -> Result<Option<T>, E> + Send,
    worker: impl Fn() -> W + Sync,
    consume: impl FnMut(U) -> Result<(), E>,
) -> Result<(), E>
where
    T: Send,
    U: Send,
    E: Send,
    W: FnMut(T) -> Result<U, E>,
{
    #[cfg(test)]
    let (call, mut source, mut consume) = (begin_call(), source, consume);
    #[cfg(test)]
    let source = || call.timed(ItemStep::Pull, &mut source);
    #[cfg(test)]
    let worker = || {
        let mut work = worker();
        move |item| call.timed(ItemStep::Work, || work(item))
    };
    #[cfg(test)]
    let consume = |result| call.timed(ItemStep::Consume, || consume(result));
    let most = most.clamp(1, window(threads.get()));
    let queue = Queue::new(source, most);
    if most == 1 {
        return alone(&queue, worker(), consume);
    }
    thread::scope(|scope| {
        let (sender, results) = channel();
        // If the system gives no more threads, fewer do the work: the result is the same.
        let workers: Vec<_> = (0..threads.get().min(most))
            .map_while(|_| {
                let sender = sender.clone();
                let (queue, worker) = (&queue, &worker);
                let serve = move || queue.serve(worker(), &sender);
                start_thread::start_scoped(scope, "fastpack-work", serve).ok()
            })
            .collect();
        drop(sender);
        if workers.is_empty() {
            return alone(&queue, worker(), consume);
        }
        let delivered = {
            // However this thread leaves, even by a panic, the other threads must not wait for it.
            let _closed = CloseQueueOnDrop(&queue);
            deliver(results, &queue, consume)
        };
        // The end of the scope waits for the work of the threads alone. After a join they have ended too.
        for worker in workers {
            if let Err(panic) = worker.join() {
                resume_unwind(panic);
            }
        }
        delivered
    })
}

/// Processes all items on this thread, one after the other.
fn alone<S, T, U, E>(
    queue: &Queue<S>,
    mut work: impl FnMut(T) -> Result<U, E>,
    mut consume: impl FnMut(U) -> Result<(), E>,
) -> Result<(), E>
where
    S: FnMut() -> Result<Option<T>, E>,
{
    while let Some((_, item)) = queue.pull() {
        consume(work(item?)?)?;
        queue.delivered();
    }
    Ok(())
}

/// Passes the results to `consume` in the order of the items.
fn deliver<S, U, E>(
    results: Receiver<(usize, Result<U, E>)>,
    queue: &Queue<S>,
    mut consume: impl FnMut(U) -> Result<(), E>,
) -> Result<(), E> {
    let mut early = BTreeMap::new();
    let mut next = 0;
    for (index, result) in results {
        early.insert(index, result);
        while let Some(result) = early.remove(&next) {
            next += 1;
            consume(result?)?;
            queue.delivered();
        }
    }
    Ok(())
}

/// The items with their places in the order. A free thread pulls the next one.
struct Queue<S> {
    state: Mutex<QueueState<S>>,
    moved: Condvar,
    window: usize,
}

struct QueueState<S> {
    source: S,
    pulled: usize,
    delivered: usize,
    closed: bool,
}

impl<S> Queue<S> {
    fn new(source: S, window: usize) -> Self {
        let state = QueueState { source, pulled: 0, delivered: 0, closed: false };
        Self { state: Mutex::new(state), moved: Condvar::new(), window }
    }

    fn state(&self) -> MutexGuard<'_, QueueState<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room for one more item.
    fn delivered(&self) {
        self.state().delivered += 1;
        self.moved.notify_one();
    }

    fn close(&self) {
        self.state().closed = true;
        self.moved.notify_all();
    }

    /// Processes items until the source is empty, an item fails, or the queue is closed.
    fn serve<T, U, E>(
        &self,
        mut work: impl FnMut(T) -> Result<U, E>,
        results: &Sender<(usize, Result<U, E>)>,
    ) where
        S: FnMut() -> Result<Option<T>, E>,
    {
        // A panic of one thread must not leave the others waiting for its result.
        let on_panic = CloseQueueOnDrop(self);
        while let Some((index, item)) = self.pull() {
            let result = item.and_then(&mut work);
            let failed = result.is_err();
            if results.send((index, result)).is_err() || failed {
                break;
            }
        }
        std::mem::forget(on_panic);
    }

    fn pull<T, E>(&self) -> Option<(usize, Result<T, E>)>
    where
        S: FnMut() -> Result<Option<T>, E>,
    {
        let mut state = self.state();
        while !state.closed && state.pulled >= state.delivered + self.window {
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed {
            return None;
        }
        let item = (state.source)().transpose();
        // After the end or a failure there is nothing left to pull.
        state.closed = item.as_ref().is_none_or(Result::is_err);
        if state.closed {
            // One thread is woken for each place that becomes free. No other will.
            self.moved.notify_all();
        }
        let index = state.pulled;
        state.pulled += 1;
        item.map(|item| (index, item))
    }
}

struct CloseQueueOnDrop<'a, S>(&'a Queue<S>);

impl<S> Drop for CloseQueueOnDrop<'_, S> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(threads: usize, items: u32, fail_at: Option<u32>) -> (Vec<u32>, Result<(), u32>) {
        let mut source = 0..items;
        let mut seen = Vec::new();
        let result = ordered(
            NonZeroUsize::new(threads).expect("a test with threads"),
            || Ok(source.next()),
            || {
                |item: u32| {
                    if fail_at.is_some_and(|at| item >= at) { Err(item) } else { Ok(item * 2) }
                }
            },
            |result| {
                seen.push(result);
                Ok(())
            },
        );
        (seen, result)
    }

    #[test]
    fn results_come_in_the_order_of_the_items() {
        for threads in [1, 2, 8] {
            let (seen, result) = run(threads, 1000, None);
            assert_eq!(result, Ok(()));
            assert_eq!(seen, (0..1000).map(|item| item * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_first_failure_in_order_is_the_one_returned() {
        for threads in [1, 2, 8] {
            let (seen, result) = run(threads, 1000, Some(500));
            assert_eq!(result, Err(500));
            assert_eq!(seen.len(), 500);
        }
    }

    #[test]
    fn fewer_threads_or_none_give_the_same() {
        for started in [0, 1, 3] {
            for fail_at in [None, Some(0), Some(500)] {
                let expected = run(8, 1000, fail_at);
                let done = start_thread::tests::with_at_most(started, || run(8, 1000, fail_at));
                assert_eq!(done, expected, "{started} threads");
            }
        }
    }

    #[test]
    fn a_failing_consumer_ends_the_whole() {
        let mut source = 0..u32::MAX;
        let result = ordered(
            NonZeroUsize::MIN.saturating_add(3),
            || Ok(source.next()),
            || |item: u32| Ok(item),
            |item| if item == 77 { Err(item) } else { Ok(()) },
        );
        assert_eq!(result, Err(77));
    }

    #[test]
    fn a_panicking_worker_ends_the_whole_with_its_panic() {
        let mut source = 0..u32::MAX;
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            ordered(
                NonZeroUsize::MIN.saturating_add(1),
                || Ok::<_, ()>(source.next()),
                || |item: u32| if item == 5 { panic!("on purpose") } else { Ok(item) },
                |_| Ok(()),
            )
        }));
        assert!(caught.is_err());
    }
}
