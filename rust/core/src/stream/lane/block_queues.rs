//! [`BlockQueues`]: the blocks that worker threads have made for each lane, in order, and the choice of the lane to read
//! next.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::error::{Error, Result};
use crate::util::start_thread;

/// The least number of blocks of a feed in progress or waiting: one to be packed, and one after it.
const LEAST_AHEAD: u64 = 2;

/// The number of blocks in progress or waiting for each thread, over all feeds, if that is more.
const BLOCKS_PER_THREAD: u64 = 4;

/// Ordered results for several feeds. A free thread makes the next one.
#[derive(Debug)]
pub(crate) struct BlockQueues<T> {
    state: Mutex<QueuesState<T>>,
    /// Wakes the thread that waits for a result.
    result: Condvar,
    /// Wakes the threads that wait for a claim.
    claimable: Condvar,
    threads: u64,
}

#[derive(Debug)]
struct QueuesState<T> {
    feeds: Vec<BlockFeed<T>>,
    /// The feed that is being waited for, or was last.
    wanted: usize,
    /// True if the feed is being waited for.
    waiting: bool,
    /// The number of threads that wait for a claim.
    idle: usize,
    closed: bool,
}

#[derive(Debug)]
struct BlockFeed<T> {
    /// The numbers of results that were started and taken.
    begun: u64,
    taken: u64,
    ready: BTreeMap<u64, Result<T>>,
    /// True if a thread is reading for the feed.
    reading: bool,
    ended: bool,
}

/// A place in the order of a feed, for which a thread reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FeedClaim {
    pub(crate) feed: usize,
    number: u64,
}

impl<T> BlockQueues<T> {
    pub(crate) fn new(feeds: usize, threads: usize) -> Self {
        let feed = || BlockFeed {
            begun: 0,
            taken: 0,
            ready: BTreeMap::new(),
            reading: false,
            ended: false,
        };
        let feeds = (0..feeds).map(|_| feed()).collect();
        let state = QueuesState { feeds, wanted: 0, waiting: false, idle: 0, closed: false };
        let (result, claimable) = (Condvar::new(), Condvar::new());
        Self { state: Mutex::new(state), result, claimable, threads: threads as u64 }
    }

    fn state(&self) -> MutexGuard<'_, QueuesState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The feed that a free thread reads next, once there is one; `None` when all is done. The caller must
    /// call [`was_read`](Self::was_read).
    pub(crate) fn claim(&self) -> Option<FeedClaim> {
        let mut state = self.state();
        loop {
            if state.closed || state.feeds.iter().all(|feed| feed.ended) {
                return None;
            }
            if let Some(claim) = self.choose(&mut state) {
                return Some(claim);
            }
            state.idle += 1;
            state = self.claimable.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    /// Releases the state after a change of `feed`. Wakes a thread that waits for a claim, or all that wait if the feed has ended.
    fn release(&self, state: MutexGuard<'_, QueuesState<T>>, feed: usize) {
        let ended = state.feeds[feed].ended;
        let (waits, idle) = (state.waiting && state.wanted == feed, state.idle > 0);
        drop(state);
        if idle && !ended {
            self.claimable.notify_one();
        }
        if ended {
            self.claimable.notify_all();
            if waits {
                self.result.notify_one();
            }
        }
    }

    /// [`claim`](Self::claim) without waiting.
    pub(crate) fn try_claim(&self) -> Option<FeedClaim> {
        let mut state = self.state();
        self.choose(&mut state)
    }

    /// The feed that is being waited for, so that the first rows come soon. Otherwise the feed with the fewest
    /// blocks in progress; of several, the one that is needed first.
    fn choose(&self, state: &mut QueuesState<T>) -> Option<FeedClaim> {
        let open = state.feeds.iter().filter(|feed| !feed.ended).count() as u64;
        let most = (self.threads * BLOCKS_PER_THREAD).div_ceil(open.max(1)).max(LEAST_AHEAD);
        let count = state.feeds.len();
        let wanted = state.wanted;
        let is_free = |at: usize| {
            let feed = &state.feeds[at];
            !feed.ended && !feed.reading && feed.begun - feed.taken < most
        };
        let free = (0..count).map(|step| (wanted + step) % count).filter(|&at| is_free(at));
        let feed = if state.waiting && is_free(wanted) {
            wanted
        } else {
            free.min_by_key(|&at| state.feeds[at].begun - state.feeds[at].taken)?
        };
        let chosen = &mut state.feeds[feed];
        chosen.reading = true;
        chosen.begun += 1;
        Some(FeedClaim { feed, number: chosen.begun - 1 })
    }

    /// Reports that a thread has read for its claim, and whether the feed has ended.
    pub(crate) fn was_read(&self, claim: FeedClaim, ended: bool) {
        let mut state = self.state();
        let feed = &mut state.feeds[claim.feed];
        feed.reading = false;
        feed.ended |= ended;
        self.release(state, claim.feed);
    }

    /// Stores the result of a claim.
    pub(crate) fn store_result(&self, claim: FeedClaim, result: Result<T>) {
        let mut state = self.state();
        state.feeds[claim.feed].ready.insert(claim.number, result);
        if state.waiting && state.wanted == claim.feed {
            drop(state);
            self.result.notify_one();
        }
    }

    /// The next result of a feed; `None` after its last. Waits for it, or calls `help` meanwhile, which makes
    /// a result and returns whether it did.
    pub(crate) fn take(&self, feed: usize, mut help: impl FnMut() -> bool) -> Result<Option<T>> {
        let mut state = self.state();
        state.wanted = feed;
        loop {
            let this = &mut state.feeds[feed];
            let next = this.taken;
            if let Some(result) = this.ready.remove(&next) {
                this.taken += 1;
                state.waiting = false;
                self.release(state, feed);
                return result.map(Some);
            }
            if this.ended && this.taken == this.begun {
                return Ok(None);
            }
            if state.closed {
                return Err(Error::Cancelled);
            }
            state.waiting = true;
            drop(state);
            let helped = help();
            state = self.state();
            let this = &state.feeds[feed];
            let waits = !helped && !this.ready.contains_key(&this.taken) && !state.closed;
            if waits && !(this.ended && this.taken == this.begun) {
                state = self.result.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Takes back the claim of a feed that has ended.
    pub(crate) fn nothing(&self, claim: FeedClaim) {
        let mut state = self.state();
        let feed = &mut state.feeds[claim.feed];
        feed.begun -= 1;
        feed.reading = false;
        feed.ended = true;
        self.release(state, claim.feed);
    }

    /// Calls `deliver` on this thread, which takes results, while up to `threads` others make them for the claims that they
    /// get. It is told whether there are any. A panic of a thread is raised again once all have ended.
    pub(crate) fn served<W: FnMut(FeedClaim), R>(
        &self,
        threads: usize,
        worker: impl Fn() -> W + Sync,
        deliver: impl FnOnce(bool) -> R,
    ) -> R
    where
        T: Send,
    {
        thread::scope(|scope| {
            let serve = || {
                let on_leaving = CloseOnDrop(self);
                let mut work = worker();
                while let Some(claim) = self.claim() {
                    work(claim);
                }
                std::mem::forget(on_leaving);
            };
            // If the system gives no more threads, fewer do the work: the result is the same.
            let workers: Vec<_> = (0..threads)
                .map_while(|_| start_thread::start_scoped(scope, "fastpack-work", serve).ok())
                .collect();
            let delivered = {
                let _closed = CloseOnDrop(self);
                deliver(!workers.is_empty())
            };
            for worker in workers {
                if let Err(panic) = worker.join() {
                    resume_unwind(panic);
                }
            }
            delivered
        })
    }

    /// Stops all threads.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.result.notify_all();
        self.claimable.notify_all();
    }
}

/// Stops all threads when it is dropped, even by a panic.
struct CloseOnDrop<'a, T>(&'a BlockQueues<T>);

impl<T> Drop for CloseOnDrop<'_, T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_panic_of_a_worker_is_raised_where_results_are_taken() {
        for threads in [1, 3] {
            let queues = BlockQueues::new(4, threads);
            let worker = || {
                |claim: FeedClaim| {
                    assert!(claim.number < 5, "the sixth block of feed {}", claim.feed);
                    queues.was_read(claim, false);
                    queues.store_result(claim, Ok(claim.number));
                }
            };
            let mut taken = 0;
            let deliver = |has_workers: bool| {
                assert!(has_workers);
                while queues.take(1, || false)?.is_some() {
                    taken += 1;
                }
                Ok::<(), Error>(())
            };
            let served = AssertUnwindSafe(|| queues.served(threads, worker, deliver));
            let panic = catch_unwind(served).expect_err("the workers panic");
            let message = panic.downcast_ref::<String>().map_or("", String::as_str);
            assert!(message.starts_with("the sixth block"), "{message}");
            assert!(taken <= 5, "{taken} results of five blocks");
        }
    }
}
