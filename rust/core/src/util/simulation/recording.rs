//! [`JobRecording`]: the processor time of each piece of work of a job on one thread.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cpu_time::ThreadTime;
use serde::{Deserialize, Serialize};

static CURRENT: Mutex<Option<JobRecording>> = Mutex::new(None);

/// The processor time of each piece of work of a job on one thread.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct JobRecording {
    pub(crate) calls: Vec<OrderedCall>,
    pub(crate) units: Vec<EncodedUnit>,
    pub(crate) pieces: Vec<WrittenPiece>,
}

/// The items of a call of [`ordered_within`](crate::util::threads_in_order::ordered_within), in their order.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct OrderedCall {
    /// The first of [`JobRecording::units`] that was encoded since the call began, and the one after the last.
    pub(crate) units: (usize, usize),
    /// Pulling an item, which one thread does at a time.
    pub(crate) pull: Vec<Duration>,
    /// The work on an item.
    pub(crate) work: Vec<Duration>,
    /// Handing over a result, which one thread does in the order of the items.
    pub(crate) consume: Vec<Duration>,
}

/// A unit of rows of a shard.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct EncodedUnit {
    /// Bytes of its columns in memory.
    pub(crate) rows: u64,
    /// Bytes in the file.
    pub(crate) encoded: u64,
    pub(crate) encode: Duration,
}

/// A piece of a shard.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct WrittenPiece {
    pub(crate) hash: Duration,
    /// Writing it, which one thread does at a time for each file.
    pub(crate) write: Duration,
}

/// A part of the work on an item.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ItemStep {
    Pull,
    Work,
    Consume,
}

/// The number of a call that is being recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallNumber(Option<usize>);

/// Records what `job` does on all threads. Jobs of other threads must not run meanwhile.
pub(crate) fn record<T>(job: impl FnOnce() -> T) -> (T, JobRecording) {
    *current() = Some(JobRecording::default());
    let result = job();
    let recording = current().take().unwrap_or_default();
    (result, recording)
}

/// Says that a call of `ordered_within` begins.
pub(crate) fn begin_call() -> CallNumber {
    let mut current = current();
    CallNumber(current.as_mut().map(|recording| {
        let at = recording.units.len();
        recording.calls.push(OrderedCall { units: (at, at), ..OrderedCall::default() });
        recording.calls.len() - 1
    }))
}

impl CallNumber {
    /// Does a part of the work on the next item, and notes its time.
    pub(crate) fn timed<T>(self, part: ItemStep, work: impl FnOnce() -> T) -> T {
        let Self(Some(call)) = self else { return work() };
        let (result, time) = timed(work);
        if let Some(recording) = &mut *current() {
            let OrderedCall { pull, work, consume, .. } = &mut recording.calls[call];
            match part {
                ItemStep::Pull => pull,
                ItemStep::Work => work,
                ItemStep::Consume => consume,
            }
            .push(time);
        }
        result
    }
}

/// Notes a unit of rows that was encoded.
pub(crate) fn note_unit(unit: EncodedUnit) {
    if let Some(JobRecording { calls, units, .. }) = &mut *current() {
        units.push(unit);
        if let Some(call) = calls.last_mut() {
            call.units.1 = units.len();
        }
    }
}

/// Adds to what is known of the piece `number` of the current file, which is the last one that was begun.
pub(crate) fn note_hash(hash: Duration) {
    if let Some(recording) = &mut *current() {
        recording.pieces.push(WrittenPiece { hash, ..WrittenPiece::default() });
    }
}

/// Notes that the next of the hashed pieces was written.
pub(crate) fn note_write(write: Duration) {
    if let Some(recording) = &mut *current()
        && let Some(piece) = recording.pieces.last_mut()
    {
        piece.write += write;
    }
}

/// The result of some work, and the processor time that it took this thread.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let clock = ThreadTime::now();
    let result = work();
    (result, clock.elapsed())
}

fn current() -> MutexGuard<'static, Option<JobRecording>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}
