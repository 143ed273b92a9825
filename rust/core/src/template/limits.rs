//! How much a template may do to one record, so that a template that never ends, or doubles a text again and again, is
//! an error that names its line and not the end of the process.

use super::failure::{Failure, Outcome};
use super::value::Value;

/// Statements and turns of loops after which a record is given up: some seconds, far more than any conversation takes.
const MAX_STEPS: usize = 10_000_000;

/// Bytes of output and of values that a template may compute for a record: some copies of a record of 100 MB, and little
/// enough for every thread to reach it at once. What is borrowed from the record is free.
const MAX_BYTES: usize = 1 << 29;

/// How deep statements and expressions may nest while they run, through macros that call each other: far less than a
/// thread's stack takes, and less than Python's own limit.
const MAX_DEPTH: usize = 300;

/// How deep values may nest that are computed, printed or compared: Python stops at about a thousand.
pub(super) const MAX_NESTING: usize = 200;

/// How many pairs of values a comparison may look at: values that share their parts can be equal in very many places.
const MAX_COMPARED: usize = 1_000_000;

/// Fails if a value of so many bytes is more than a template may compute.
pub(super) fn check_size(bytes: usize) -> Outcome<()> {
    if bytes > MAX_BYTES {
        return Err(Failure::error(format!(
            "the template computes more than {} MiB for one record",
            MAX_BYTES >> 20
        )));
    }
    Ok(())
}

/// Fails if a value nests so deep that printing or freeing it could exhaust the stack, or could come to hold itself.
pub(super) fn check_nesting(value: &Value<'_>) -> Outcome<()> {
    if value.depth() >= MAX_NESTING {
        return Err(Failure::unsupported(format_args!(
            "a value of {MAX_NESTING} levels, or one that holds a namespace or `loop`,"
        )));
    }
    Ok(())
}

/// What a template has used up so far.
#[derive(Debug, Default)]
pub(super) struct Meter {
    steps: usize,
    bytes: usize,
    depth: usize,
}

impl Meter {
    /// Counts a statement, or a turn of a loop.
    pub(super) fn step(&mut self) -> Outcome<()> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err(Failure::error(format!(
                "the template does not end within {MAX_STEPS} steps"
            )));
        }
        Ok(())
    }

    /// Counts bytes that were computed.
    pub(super) fn compute(&mut self, bytes: usize) -> Outcome<()> {
        self.bytes += bytes;
        check_size(self.bytes)
    }

    /// Goes one level deeper.
    pub(super) fn descend(&mut self) -> Outcome<()> {
        if self.depth == MAX_DEPTH {
            return Err(Failure::unsupported(format_args!(
                "running more than {MAX_DEPTH} levels deep"
            )));
        }
        self.depth += 1;
        Ok(())
    }

    /// Comes back from a level.
    pub(super) fn ascend(&mut self) {
        self.depth -= 1;
    }
}

/// How far a comparison of two values has come.
#[derive(Debug, Default)]
pub(super) struct Comparing {
    compared: usize,
    depth: usize,
}

impl Comparing {
    /// Begins with a pair of values.
    pub(super) fn descend(&mut self) -> Outcome<()> {
        self.compared += 1;
        self.depth += 1;
        if self.depth > MAX_NESTING || self.compared > MAX_COMPARED {
            return Err(Failure::unsupported(format_args!(
                "comparing what nests deeper than {MAX_NESTING} levels or has more than {MAX_COMPARED} parts"
            )));
        }
        Ok(())
    }

    /// Is done with a pair.
    pub(super) fn ascend(&mut self) {
        self.depth -= 1;
    }
}
