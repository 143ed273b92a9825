//! [`Meter`]: limits the work and memory that a template takes for one record.
//!
//! Every operation reports the work and memory that it takes. A template that never ends, or
//! doubles a text again and again, so becomes an error with its line. The same count decides when the cancel
//! flag is checked.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::{Failure, RenderResult};

/// The limits of work and memory for one conversation, before its size is added.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// Units of work.
    pub work: u64,
    /// Bytes that its values and its output hold at one time.
    memory: usize,
}

impl Allowance {
    /// For a record: less than a second of work, far more than any conversation takes.
    pub const RECORD: Self = Self { work: 1 << 26, memory: 64 << 20 };

    /// For a trial conversation: some ms.
    pub const TRIAL: Self = Self { work: 1 << 20, memory: 1 << 20 };

    /// The limits for a conversation that has this many bytes with its template.
    #[must_use]
    pub fn for_size(self, bytes: usize) -> Self {
        let work = WORK_A_BYTE.saturating_mul(bytes as u64);
        let memory = MEMORY_A_BYTE.saturating_mul(bytes);
        Self { work: self.work.saturating_add(work), memory: self.memory.saturating_add(memory) }
    }
}

/// Units of work that each byte of a conversation, and of the template, adds. Some templates look at all messages for
/// each message: with 100 bytes a message, this is enough for 6,000 of them.
const WORK_A_BYTE: u64 = 512;

/// Bytes of memory that each byte of a conversation, and of the template, adds. A list of all characters of a
/// text takes the most.
const MEMORY_A_BYTE: usize = 64;

/// Units of work of a statement, or of a turn of a loop. A unit of work is about a nanosecond.
const STEP: u64 = 32;

/// Units of work of an operator, a call or the like, without those of its operation.
const NODE: u64 = 4;

/// Units of work to visit an item of a list, or a key of a dict.
const ITEM: u64 = 16;

/// Bytes that are compared or copied within a unit of work.
const BYTES_A_UNIT: usize = 4;

/// Units of work between two checks of the cancel flag: some ms.
const STRIDE: u64 = 1 << 20;

/// Bytes of a text that are worked on at a time.
pub(crate) const PIECE: usize = 1 << 20;

/// Most levels that statements and expressions may nest while they run, through macros that call each other:
/// far less than a thread's stack takes, and less than Python's own limit.
const MAX_DEPTH: usize = 300;

/// Most levels that values may nest to be computed, printed or compared. Python stops at about a thousand.
pub(crate) const MAX_NESTING: usize = 200;

/// Memory that a value holds. It is given back when the value is dropped.
#[derive(Default)]
pub(crate) struct HeldMemory {
    live: Option<Rc<Cell<usize>>>,
    bytes: usize,
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        if let Some(live) = &self.live {
            live.set(live.get().saturating_sub(self.bytes));
        }
    }
}

/// A state of a [`Meter`] to go back to.
#[derive(Clone, Copy)]
pub(crate) struct MeterMark {
    work: u64,
    depth: usize,
}

/// Counts the work that a template does for one record, and the memory that it holds.
pub struct Meter<'m> {
    allowance: Allowance,
    work: Cell<u64>,
    /// The work at which the limit and the cancel flag are checked next.
    pause: Cell<u64>,
    most_work: Cell<u64>,
    live: Rc<Cell<usize>>,
    most_memory: Cell<usize>,
    depth: Cell<usize>,
    /// Bytes of the conversation and the template, measured at first use.
    size: Cell<Option<usize>>,
    measure: &'m dyn Fn() -> usize,
    cancelled: Option<&'m AtomicBool>,
}

impl std::fmt::Debug for Meter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meter").field("work", &self.work).finish_non_exhaustive()
    }
}

impl<'m> Meter<'m> {
    /// A meter for a conversation. `measure` gives its size, and is called only once the allowance is used
    /// up.
    pub fn new(
        allowance: Allowance,
        measure: &'m dyn Fn() -> usize,
        cancelled: Option<&'m AtomicBool>,
    ) -> Self {
        Self {
            allowance,
            work: Cell::new(0),
            pause: Cell::new(allowance.work.min(STRIDE)),
            most_work: Cell::new(allowance.work),
            live: Rc::default(),
            most_memory: Cell::new(allowance.memory),
            depth: Cell::new(0),
            size: Cell::new(None),
            measure,
            cancelled,
        }
    }

    /// Restarts the meter for another conversation, which has `size` bytes with the template.
    pub fn restart(&mut self, size: usize) {
        self.widen_by(size);
        self.work.set(0);
        self.live.set(0);
        self.pause.set(self.most_work.get().min(STRIDE));
    }

    /// Work done so far.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.work.get()
    }

    #[inline]
    fn add(&self, units: u64) -> RenderResult<()> {
        let done = self.work.get().saturating_add(units);
        self.work.set(done);
        if done <= self.pause.get() { Ok(()) } else { self.look() }
    }

    /// Checks the cancel flag and the work limit.
    #[cold]
    fn look(&self) -> RenderResult<()> {
        if self.cancelled.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Err(Failure::error("the run was cancelled"));
        }
        let done = self.work.get();
        if done > self.most_work.get() {
            let size = self.widen();
            if done > self.most_work.get() {
                return Err(Failure::error(format!(
                    "the template does more work than the {} million steps that a conversation of {size} bytes may take",
                    self.most_work.get() / 1_000_000
                )));
            }
        }
        self.pause.set(done.saturating_add(STRIDE).min(self.most_work.get()));
        Ok(())
    }

    #[cold]
    fn check_memory(&self) -> RenderResult<()> {
        let size = self.widen();
        if self.live.get() > self.most_memory.get() {
            return Err(Failure::error(format!(
                "the template takes more memory than the {} MiB that a conversation of {size} bytes may take",
                self.most_memory.get() >> 20
            )));
        }
        Ok(())
    }

    /// Adds the allowance for the size of the conversation, and returns that size.
    fn widen(&self) -> usize {
        if let Some(size) = self.size.get() {
            return size;
        }
        let size = (self.measure)();
        self.widen_by(size);
        size
    }

    fn widen_by(&self, size: usize) {
        let Allowance { work, memory } = self.allowance.for_size(size);
        self.size.set(Some(size));
        self.most_work.set(work);
        self.most_memory.set(memory);
    }

    /// Counts a statement, or a turn of a loop.
    #[inline]
    pub(crate) fn step(&self) -> RenderResult<()> {
        self.add(STEP)
    }

    /// Counts the work of what was done before.
    pub(crate) fn repeat(&self, work: u64) -> RenderResult<()> {
        self.add(work)
    }

    /// The work and the level of nesting so far.
    pub(crate) fn mark(&self) -> MeterMark {
        MeterMark { work: self.work.get(), depth: self.depth.get() }
    }

    /// Goes back to a [`mark`](Self::mark).
    pub(crate) fn rewind(&self, mark: MeterMark) {
        self.work.set(mark.work);
        self.depth.set(mark.depth);
    }

    /// Counts items that are visited.
    #[inline]
    pub(crate) fn items(&self, count: usize) -> RenderResult<()> {
        self.add(ITEM.saturating_mul(count as u64))
    }

    /// Counts bytes that are compared or copied.
    #[inline]
    pub(crate) fn bytes(&self, count: usize) -> RenderResult<()> {
        self.add((count / BYTES_A_UNIT) as u64)
    }

    /// Counts bytes that are looked at one by one: characters that are read, texts that are searched.
    #[inline]
    pub(crate) fn characters(&self, bytes: usize) -> RenderResult<()> {
        self.add(bytes as u64)
    }

    /// Enters a level of nesting.
    #[inline]
    pub(crate) fn descend(&self) -> RenderResult<()> {
        let depth = self.depth.get();
        if depth == MAX_DEPTH {
            return Err(Failure::unsupported(format_args!(
                "running more than {MAX_DEPTH} levels deep"
            )));
        }
        self.depth.set(depth + 1);
        self.add(NODE)
    }

    /// Leaves a level of nesting.
    #[inline]
    pub(crate) fn ascend(&self) {
        self.depth.set(self.depth.get() - 1);
    }

    /// Counts memory as held, until [`Meter::release`] or the value that owns it gives it back.
    #[inline]
    pub(crate) fn hold(&self, bytes: usize) -> RenderResult<()> {
        let live = self.live.get().saturating_add(bytes);
        self.live.set(live);
        if live <= self.most_memory.get() { Ok(()) } else { self.check_memory() }
    }

    /// Counts memory as given back.
    pub(crate) fn release(&self, bytes: usize) {
        self.live.set(self.live.get().saturating_sub(bytes));
    }

    /// A [`HeldMemory`] that gives memory back when it is dropped.
    pub(crate) fn held(&self, bytes: usize) -> HeldMemory {
        HeldMemory { live: Some(Rc::clone(&self.live)), bytes }
    }

    /// Appends `text` to `out`, and counts its work and memory.
    #[inline]
    pub(crate) fn write(&self, out: &mut String, text: &str) -> RenderResult<()> {
        if text.len() > PIECE {
            return pieces(text).try_for_each(|piece| self.write(out, piece));
        }
        self.bytes(text.len())?;
        self.hold(text.len())?;
        out.push_str(text);
        Ok(())
    }

    /// Appends a character.
    #[inline]
    pub(crate) fn write_char(&self, out: &mut String, c: char) -> RenderResult<()> {
        self.hold(c.len_utf8())?;
        out.push(c);
        Ok(())
    }
}

/// Splits a text into pieces that are worked on one at a time.
pub(crate) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut end = rest.len().min(PIECE);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, behind) = rest.split_at(end);
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}
