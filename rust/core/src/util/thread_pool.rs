//! [`ThreadPool`]: threads that run tasks, for work that goes on while the thread that hands it over does something else.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::start_thread;

/// A piece of work. It catches its own panics.
pub(crate) type PoolTask = Box<dyn FnOnce() + Send>;

/// Threads that run tasks. They are started as tasks come, and joined when this is dropped: each ends after its current task.
pub(crate) struct ThreadPool(TaskQueue);

/// The way to hand tasks to a [`ThreadPool`], for its tasks too.
#[derive(Clone)]
pub struct TaskQueue(Arc<SharedTasks>);

impl fmt::Debug for TaskQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskQueue").finish_non_exhaustive()
    }
}

struct SharedTasks {
    state: Mutex<SharedState>,
    changed: Condvar,
    /// Wakes those that wait behind the tasks.
    rested: Condvar,
}

struct SharedState {
    tasks: VecDeque<PoolTask>,
    most: NonZeroUsize,
    threads: Vec<JoinHandle<()>>,
    idle: usize,
    /// The threads that do other work, behind the tasks.
    behind: usize,
    closed: bool,
}

impl SharedState {
    /// True if other work would take a core from the tasks. One thread more than there may be is at work: to wake one takes a while, and a
    /// task may wait for the disk.
    fn is_busy(&self) -> bool {
        let tasks = self.threads.len() - self.idle;
        !self.closed && tasks + self.behind > self.most.get()
    }
}

impl ThreadPool {
    /// At most `most` threads; none before the first task.
    pub(crate) fn new(most: NonZeroUsize) -> Self {
        let state = SharedState {
            tasks: VecDeque::new(),
            most,
            threads: Vec::new(),
            idle: 0,
            behind: 0,
            closed: false,
        };
        let (state, changed, rested) = (Mutex::new(state), Condvar::new(), Condvar::new());
        let shared = SharedTasks { state, changed, rested };
        Self(TaskQueue(Arc::new(shared)))
    }

    /// Drops the tasks that wait, and joins the threads. A task that comes later is dropped.
    pub(crate) fn end(&mut self) {
        let mut state = self.0.state();
        state.closed = true;
        let (tasks, threads) = (mem::take(&mut state.tasks), mem::take(&mut state.threads));
        drop(state);
        self.0.0.changed.notify_all();
        self.0.0.rested.notify_all();
        drop(tasks);
        for thread in threads {
            // Tasks catch their panics.
            let _ = thread.join();
        }
    }

    /// The queue of tasks.
    pub(crate) fn queue(&self) -> &TaskQueue {
        &self.0
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.end();
    }
}

impl TaskQueue {
    /// Allows this number of threads from now on. More than that stay if they were started before.
    pub(crate) fn set_most(&self, most: NonZeroUsize) {
        self.state().most = most;
    }

    /// The number of threads that may be started.
    pub(crate) fn most(&self) -> NonZeroUsize {
        self.state().most
    }

    /// Runs a task after those that wait.
    pub(crate) fn run(&self, task: PoolTask) {
        self.push(task, VecDeque::push_back);
    }

    /// Runs a task before those that wait.
    pub(crate) fn run_first(&self, task: PoolTask) {
        self.push(task, VecDeque::push_front);
    }

    /// Does work on this thread that is to take no core from the tasks: it waits until no more threads are at work than there may be.
    fn do_behind<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut state = self.state();
        while state.is_busy() {
            state = self.0.rested.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.behind += 1;
        if !state.is_busy() {
            self.0.rested.notify_one();
        }
        drop(state);
        let _done = BehindTasks(self);
        work()
    }

    fn push(&self, task: PoolTask, insert: impl FnOnce(&mut VecDeque<PoolTask>, PoolTask)) {
        let mut state = self.state();
        if state.closed {
            return;
        }
        insert(&mut state.tasks, task);
        if state.idle >= state.tasks.len() || state.threads.len() >= state.most.get() {
            drop(state);
            self.0.changed.notify_one();
            return;
        }
        let queue = self.clone();
        if let Ok(thread) = start_thread::start("fastpack-rows", move || queue.serve()) {
            state.threads.push(thread);
            return;
        }
        // If the system gives no thread at all, this one does the work.
        while state.threads.is_empty() {
            let Some(task) = state.tasks.pop_front() else { return };
            drop(state);
            task();
            state = self.state();
        }
    }

    /// Runs tasks until the pool is closed.
    fn serve(&self) {
        let mut state = self.state();
        while !state.closed {
            if let Some(task) = state.tasks.pop_front() {
                drop(state);
                task();
                state = self.state();
            } else {
                state.idle += 1;
                self.0.rested.notify_one();
                state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, SharedState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does work behind the tasks, where there are threads for tasks.
pub(crate) fn do_behind<T>(tasks: Option<&TaskQueue>, work: impl FnOnce() -> T) -> T {
    match tasks {
        Some(tasks) => tasks.do_behind(work),
        None => work(),
    }
}

/// Work that a thread does behind the tasks.
struct BehindTasks<'a>(&'a TaskQueue);

impl Drop for BehindTasks<'_> {
    fn drop(&mut self) {
        self.0.state().behind -= 1;
        self.0.0.rested.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::util::start_thread::tests::with_at_most;

    fn pool(threads: usize) -> ThreadPool {
        ThreadPool::new(NonZeroUsize::new(threads).expect("a test with threads"))
    }

    #[test]
    fn all_tasks_run_on_any_number_of_threads() {
        for (threads, started) in [(1, 1), (3, 3), (8, 2), (8, 0)] {
            let numbers = with_at_most(started, || {
                let pool = pool(threads);
                let (sender, numbers) = channel();
                for number in 0..1000 {
                    let sender = sender.clone();
                    pool.queue().run(Box::new(move || sender.send(number).expect("a receiver")));
                }
                drop(sender);
                let mut numbers: Vec<i32> = numbers.iter().collect();
                numbers.sort_unstable();
                numbers
            });
            assert_eq!(numbers, (0..1000).collect::<Vec<_>>(), "{started} of {threads} threads");
        }
    }

    #[test]
    fn a_task_hands_over_further_tasks() {
        let pool = pool(1);
        let (sender, numbers) = channel();
        let (queue, inner) = (pool.queue().clone(), sender.clone());
        pool.queue().run(Box::new(move || {
            queue.run(Box::new({
                let sender = inner.clone();
                move || sender.send(2).expect("a receiver")
            }));
            queue.run_first(Box::new(move || inner.send(1).expect("a receiver")));
        }));
        drop(sender);
        assert_eq!(numbers.iter().collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn work_behind_the_tasks_waits_while_more_threads_are_at_work_than_there_may_be() {
        for ends_pool in [false, true] {
            let mut pool = pool(1);
            let (go_on, wait) = channel::<()>();
            pool.queue().run(Box::new(move || assert!(wait.recv().is_err())));
            let (end_first, first) = channel::<()>();
            let (sender, begun) = channel();
            let work = |number: i32, until: Option<std::sync::mpsc::Receiver<()>>| {
                let (queue, sender) = (pool.queue().clone(), sender.clone());
                std::thread::spawn(move || {
                    queue.do_behind(|| {
                        sender.send(number).expect("a receiver");
                        until.map(|until| until.recv());
                    });
                })
            };
            let beside_task = work(1, Some(first));
            assert_eq!(begun.recv(), Ok(1));
            let behind = work(2, None);
            let waited = begun.recv_timeout(std::time::Duration::from_millis(20));
            assert!(waited.is_err(), "the task and the first work take all there is");
            drop(go_on);
            if ends_pool {
                pool.end();
            }
            assert_eq!(begun.recv(), Ok(2));
            drop(end_first);
            beside_task.join().expect("it ends");
            behind.join().expect("it ends");
        }
    }

    #[test]
    fn what_waits_is_dropped_with_the_pool() {
        let pool = pool(1);
        let (go_on, wait) = channel::<()>();
        let (sender, numbers) = channel();
        pool.queue().run(Box::new(move || assert!(wait.recv().is_err())));
        pool.queue().run(Box::new(move || sender.send(1).expect("a receiver")));
        let (queue, closed) = (pool.queue().clone(), pool.queue().clone());
        // The first task, if it has begun, ends once the pool is closed; to drop the pool waits for it.
        std::thread::spawn(move || {
            while !closed.state().closed {
                std::thread::yield_now();
            }
            drop(go_on);
        });
        drop(pool);
        queue.run(Box::new(|| unreachable!("the pool is closed")));
        assert_eq!(numbers.iter().count(), 0);
    }
}
