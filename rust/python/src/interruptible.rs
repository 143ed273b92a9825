//! Runs jobs of the core on threads and waits for them: detached from Python, interruptible, with progress.
//!
//! No other module of this crate detaches from Python, attaches to it or checks signals, except that
//! `error.rs` attaches to make an exception.

use std::fmt;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::process;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use fastpack_core::util::start_thread;
use fastpack_core::{Control, Error, Result};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::error;

/// The interval at which a waiting call checks for Ctrl-C and reports progress: a fourth of the 200 ms that a
/// user may wait.
const POLL: Duration = Duration::from_millis(50);

/// The time that an interrupt waits for a job that may be abandoned. Most jobs end in it and free their
/// memory.
const GRACE: Duration = Duration::from_millis(100);

/// The way in which an interrupt ends a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupted {
    /// Cancels the job and joins its thread, so that the job leaves its folder in order.
    Join,
    /// Cancels the job, and does not join its thread if that takes longer than [`GRACE`]: the job may be
    /// inside one huge record, and changes nothing outside the process.
    Abandon,
}

/// Runs `job` on a new thread, and returns its value.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    interrupted: Interrupted,
    job: impl FnOnce(&Control, &Caller) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let mut task =
        JobThread::spawn(1, interrupted, |control, caller, emit| emit(job(control, caller)?))?;
    let value = task.next(py, progress)?.expect("a job emits one value or fails");
    report(py, &task.control, progress)?;
    Ok(value)
}

/// Runs Python on a thread of its own, where no signal becomes an exception: Python raises them on its main thread.
pub(crate) fn without_signals(
    py: Python<'_>,
    work: impl FnOnce(Python<'_>) + Send + 'static,
) -> PyResult<()> {
    run(py, None, Interrupted::Abandon, move |_, _| {
        Python::attach(work);
        Ok(())
    })
}

/// A message from a job to the call that waits for it.
enum JobMessage<T> {
    /// A value.
    Value(T),
    /// Python code for the waiting thread to run.
    Call(Call),
}

type Call = Box<dyn FnOnce(Python<'_>) + Send>;

/// Runs Python code for a job on the thread that waits for the job, so that Ctrl-C and thread-local state
/// work as in any Python code.
#[derive(Clone)]
pub(crate) struct Caller {
    ask: Arc<dyn Fn(Call) -> Result<()> + Send + Sync>,
    control: Arc<Control>,
    interrupt: RaisedInterrupt,
}

/// The `KeyboardInterrupt` that Python code of the caller raised, until the waiting call raises it.
type RaisedInterrupt = Arc<Mutex<Option<PyErr>>>;

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("control", &self.control).finish_non_exhaustive()
    }
}

impl Caller {
    fn new<T: Send + 'static>(messages: SyncSender<JobMessage<T>>, control: Arc<Control>) -> Self {
        let ask = move |call| messages.send(JobMessage::Call(call)).map_err(|_| Error::Cancelled);
        Self { ask: Arc::new(ask), control, interrupt: RaisedInterrupt::default() }
    }

    /// The job's cancel flag and counters, shared with the waiting call.
    pub(crate) fn control(&self) -> Arc<Control> {
        Arc::clone(&self.control)
    }

    /// Runs `work` and returns its result. An exception becomes an error, from which [`error::to_py`]
    /// restores it.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(Python<'_>) -> PyResult<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = channel();
        let interrupt = Arc::clone(&self.interrupt);
        (self.ask)(Box::new(move |py| {
            let done = work(py).map_err(|raised| error::not_an_end(py, raised));
            if let Err(raised) = &done
                && raised.is_instance_of::<PyKeyboardInterrupt>(py)
            {
                *locked(&interrupt) = Some(raised.clone_ref(py));
            }
            // Sending fails if the job has ended, and then nobody needs the result.
            answer.send(done).ok();
        }))?;
        let answer = answered.recv().map_err(|_| Error::Cancelled)?;
        answer.map_err(|exception| Error::Caller(Box::new(exception)))
    }
}

/// A job on its own thread, which sends values through a bounded channel.
///
/// Dropping it cancels the job and joins its thread.
#[derive(Debug)]
pub(crate) struct JobThread<T: Send + 'static> {
    control: Arc<Control>,
    messages: Option<Receiver<JobMessage<T>>>,
    worker: Option<JoinHandle<Result<()>>>,
    interrupted: Interrupted,
    interrupt: RaisedInterrupt,
    polled: Instant,
    process: u32,
    /// True if the job failed for a reason that can pass: the same job may go on where this one ended.
    passes: bool,
    /// The start of the caller's Python code that runs for the job now.
    running: CallerCodeStart,
}

/// The time at which the caller's Python code began to run for a job; `None` while none runs.
type CallerCodeStart = Arc<Mutex<Option<Instant>>>;

/// Runs Python code of the caller, and keeps its start in `running` meanwhile.
fn attached<T>(running: &CallerCodeStart, work: impl FnOnce(Python<'_>) -> T) -> T {
    *locked(running) = Some(Instant::now());
    let done = Python::attach(work);
    *locked(running) = None;
    done
}

impl<T: Send + 'static> JobThread<T> {
    /// Starts `job`, which may be up to `ahead` values ahead of its consumer.
    pub(crate) fn spawn(
        ahead: usize,
        interrupted: Interrupted,
        job: impl FnOnce(&Control, &Caller, &mut dyn FnMut(T) -> Result<()>) -> Result<()>
        + Send
        + 'static,
    ) -> PyResult<Self> {
        let (sender, messages) = sync_channel(ahead);
        let control = Arc::new(Control::default());
        let caller = Caller::new(sender.clone(), Arc::clone(&control));
        let interrupt = Arc::clone(&caller.interrupt);
        let shared = Arc::clone(&control);
        let worker = start_thread::start("fastpack", move || {
            job(&shared, &caller, &mut |value| {
                sender.send(JobMessage::Value(value)).map_err(|_| Error::Cancelled)
            })
        });
        let worker = worker.map_err(|refused| error::to_py(Error::NoThread(refused)))?;
        Ok(Self {
            control,
            messages: Some(messages),
            worker: Some(worker),
            interrupted,
            interrupt,
            polled: Instant::now(),
            process: process::id(),
            passes: false,
            running: CallerCodeStart::default(),
        })
    }

    /// The cancel flag and counters that the job and this task share.
    pub(crate) fn control(&self) -> Arc<Control> {
        Arc::clone(&self.control)
    }

    /// True if the job failed for a reason that can pass.
    pub(crate) fn passes(&self) -> bool {
        self.passes
    }

    /// Waits for the next value; `None` after the job has ended without an error.
    pub(crate) fn next(
        &mut self,
        py: Python<'_>,
        progress: Option<&Py<PyAny>>,
    ) -> PyResult<Option<T>> {
        if self.process != process::id() {
            return Err(error::after_fork(py));
        }
        py.detach(|| {
            while let Some(messages) = &self.messages {
                if self.polled.elapsed() >= POLL {
                    self.polled = Instant::now();
                    let polled = attached(&self.running, |py| poll(py, &self.control, progress));
                    if let Err(interrupt) = polled {
                        self.interrupt();
                        return Err(interrupt);
                    }
                }
                match messages.recv_timeout(POLL) {
                    Ok(JobMessage::Value(value)) => return Ok(Some(value)),
                    Ok(JobMessage::Call(call)) => {
                        attached(&self.running, call);
                        // The job would raise it only where it needs the result of the call.
                        let raised = locked(&self.interrupt).take();
                        if let Some(interrupt) = raised {
                            self.interrupt();
                            return Err(interrupt);
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => match self.stop() {
                        None => {}
                        Some(Ok(ended)) => {
                            self.passes = ended.as_ref().is_err_and(Error::may_pass);
                            ended.map_err(error::to_py)?;
                            attached(&self.running, |py| report(py, &self.control, progress))?;
                        }
                        Some(Err(panic)) => return Err(error::from_panic(&*panic)),
                    },
                }
            }
            Ok(None)
        })
    }

    /// Cancels the job and waits for its end.
    pub(crate) fn close(&mut self, py: Python<'_>) {
        py.detach(|| drop(self.stop()));
    }

    fn interrupt(&mut self) {
        if self.interrupted == Interrupted::Abandon && !self.ends_soon() {
            self.worker = None;
        }
        drop(self.stop());
    }

    /// Cancels the job, and returns whether it ends within [`GRACE`].
    fn ends_soon(&mut self) -> bool {
        self.control.cancel();
        // Closing the channel wakes a job that waits to send a value.
        self.messages = None;
        let since = Instant::now();
        let ended = || self.worker.as_ref().is_none_or(JoinHandle::is_finished);
        while !ended() && since.elapsed() < GRACE {
            thread::sleep(GRACE / 100);
        }
        ended()
    }

    /// Cancels the job, joins its thread and returns its result; `None` if that was done before, or after a
    /// fork.
    fn stop(&mut self) -> Option<thread::Result<Result<()>>> {
        self.control.cancel();
        let (messages, worker) = (self.messages.take(), self.worker.take());
        if self.process != process::id() {
            // After a fork the thread exists only in the parent: joining it here would never return, and a
            // lock inside the channel may have been copied while held.
            mem::forget((messages, worker));
            return None;
        }
        drop(messages);
        worker.map(JoinHandle::join)
    }
}

impl<T: Send + 'static> Drop for JobThread<T> {
    fn drop(&mut self) {
        if self.worker.is_none() {
            return;
        }
        // Python drops objects with the GIL held, and the job may need until the end of a document to stop.
        if Python::try_attach(|py| self.close(py)).is_none() {
            drop(self.stop());
        }
    }
}

/// A [`JobThread`] for several Python threads; one at a time waits for it.
#[derive(Debug)]
pub(crate) struct SharedTask<T: Send + 'static> {
    task: Mutex<JobThread<T>>,
    /// The thread that waits for the task, if one does.
    holder: Mutex<Option<ThreadId>>,
    freed: Condvar,
    running: CallerCodeStart,
    process: u32,
}

/// The longest time that one call of the caller's function may take while another thread waits for the task.
/// After it the waiting thread is refused, because the function may be waiting for that thread.
const PATIENCE: Duration = Duration::from_secs(10);

impl<T: Send + 'static> SharedTask<T> {
    pub(crate) fn new(task: JobThread<T>) -> Self {
        let (running, process) = (Arc::clone(&task.running), task.process);
        let (task, holder) = (Mutex::new(task), Mutex::default());
        Self { task, holder, freed: Condvar::new(), running, process }
    }

    /// Waits until no other thread uses the task, and returns it.
    ///
    /// Fails where it would wait for ever: in Python code that runs while the same thread waits for the task
    /// (a function of the caller, a progress callback, a signal handler), and in a thread that such code
    /// waits for.
    pub(crate) fn turn(&self, py: Python<'_>) -> PyResult<TaskGuard<'_, T>> {
        self.refuse_own_thread(py)?;
        py.detach(|| -> PyResult<()> {
            loop {
                let mut holder = locked(&self.holder);
                if holder.is_none() {
                    *holder = Some(thread::current().id());
                    return Ok(());
                }
                drop(self.freed.wait_timeout(holder, POLL));
                let stuck = locked(&self.running).is_some_and(|since| since.elapsed() > PATIENCE);
                Python::attach(|py| {
                    if stuck { Err(error::waited_for(py)) } else { py.check_signals() }
                })?;
            }
        })?;
        Ok(TaskGuard { task: locked(&self.task), shared: self })
    }

    /// Fails in Python code that runs while this thread waits for the task.
    pub(crate) fn refuse_own_thread(&self, py: Python<'_>) -> PyResult<()> {
        if self.process != process::id() {
            return Err(error::after_fork(py));
        }
        if *locked(&self.holder) == Some(thread::current().id()) {
            return Err(error::in_use(py));
        }
        Ok(())
    }
}

/// Exclusive use of a task by one thread, until it is dropped.
pub(crate) struct TaskGuard<'a, T: Send + 'static> {
    task: MutexGuard<'a, JobThread<T>>,
    shared: &'a SharedTask<T>,
}

impl<T: Send + 'static> Deref for TaskGuard<'_, T> {
    type Target = JobThread<T>;

    fn deref(&self) -> &JobThread<T> {
        &self.task
    }
}

impl<T: Send + 'static> DerefMut for TaskGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut JobThread<T> {
        &mut self.task
    }
}

impl<T: Send + 'static> Drop for TaskGuard<'_, T> {
    fn drop(&mut self) {
        // The mutex guard is dropped right after this, so the next thread waits for it only a moment.
        *locked(&self.shared.holder) = None;
        self.shared.freed.notify_one();
    }
}

/// Locks a mutex that is only held briefly. Its content is valid after a panic too.
fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets Python act on pending signals, then reports progress.
fn poll(py: Python<'_>, control: &Control, progress: Option<&Py<PyAny>>) -> PyResult<()> {
    py.check_signals()?;
    report(py, control, progress)
}

fn report(py: Python<'_>, control: &Control, progress: Option<&Py<PyAny>>) -> PyResult<()> {
    if let Some(callback) = progress {
        let now = control.progress();
        callback.call1(
            py,
            (now.phase.name(), now.bytes, now.total_bytes, now.documents, now.tokens, now.rows),
        )?;
    }
    Ok(())
}
