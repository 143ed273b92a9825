//! Cutting a plan into batches.

use std::num::NonZeroUsize;
use std::ops::Range;

use super::Padding;
use crate::pack::Plan;

/// The most tokens of a batch: the reach of the 32-bit offsets of an Arrow list.
const REACH: u64 = i32::MAX as u64;

/// Neighbouring rows, a batch at a time: at most `most_rows` rows and `most_tokens` tokens each,
/// padding included.
///
/// A row longer than `most_tokens` is a batch of its own. A plan without rows gives one empty range, so that
/// the writer of the batches learns the schema.
pub fn batch_ranges(
    plan: &Plan,
    padding: Padding,
    most_rows: NonZeroUsize,
    most_tokens: u64,
) -> impl Iterator<Item = Range<usize>> {
    let mut batches = BatchRanges::new(padding, most_rows, most_tokens);
    let mut empty = plan.is_empty().then_some(0..0);
    std::iter::from_fn(move || {
        empty.take().or_else(|| batches.next_full(plan)).or_else(|| batches.rest(plan))
    })
}

/// The batches of a growing plan: the same as [`batch_ranges`] of the finished plan.
#[derive(Clone, Debug)]
pub struct BatchRanges {
    padding: Padding,
    most_rows: usize,
    most_tokens: u64,
    /// The rows of the current batch so far, and their tokens.
    rows: Range<usize>,
    tokens: u64,
}

impl BatchRanges {
    /// The batches of a plan from its first row on.
    pub fn new(padding: Padding, most_rows: NonZeroUsize, most_tokens: u64) -> Self {
        let (most_rows, most_tokens) = (most_rows.get(), most_tokens.min(REACH));
        Self { padding, most_rows, most_tokens, rows: 0..0, tokens: 0 }
    }

    /// The next batch; `None` while it could take further rows that are not planned yet.
    pub fn next_full(&mut self, plan: &Plan) -> Option<Range<usize>> {
        while self.rows.end < plan.rows() && self.rows.len() < self.most_rows {
            let tokens = self.padding.tokens(plan.padded_length_of_row(self.rows.end));
            if self.tokens + tokens > self.most_tokens && !self.rows.is_empty() {
                return Some(self.end_at(self.rows.end));
            }
            self.rows.end += 1;
            self.tokens += tokens;
        }
        (self.rows.len() == self.most_rows).then(|| self.end_at(self.rows.end))
    }

    /// The remaining rows of a finished plan.
    pub fn rest(&mut self, plan: &Plan) -> Option<Range<usize>> {
        (self.rows.start < plan.rows()).then(|| self.end_at(plan.rows()))
    }

    /// The rows of the batches so far.
    pub fn handed(&self) -> usize {
        self.rows.start
    }

    /// Says that the first `rows` rows were removed from the plan, since they are in batches.
    pub fn forget(&mut self, rows: usize) {
        self.rows = self.rows.start - rows..self.rows.end - rows;
    }

    fn end_at(&mut self, end: usize) -> Range<usize> {
        self.tokens = 0;
        let next = end..end;
        std::mem::replace(&mut self.rows, next).start..end
    }
}
