//! Cutting a plan into batches.

use std::num::NonZeroUsize;
use std::ops::Range;

use super::Padding;
use crate::pack::Plan;

/// The most tokens a batch can hold: what the 32-bit offsets of an Arrow list reach.
const REACH: u64 = i32::MAX as u64;

/// Neighbouring rows, a batch at a time: at most `most_rows` rows and `most_tokens` tokens each,
/// those that fill rows up among them.
///
/// A row longer than `most_tokens` is a batch of its own. A plan without rows gives one empty range, so that
/// whoever writes the batches learns the schema.
pub fn batch_ranges(
    plan: &Plan,
    padding: Padding,
    most_rows: NonZeroUsize,
    most_tokens: u64,
) -> impl Iterator<Item = Range<usize>> {
    let mut next = Some(0_usize);
    std::iter::from_fn(move || {
        let start = next?;
        let end = full_batch(plan, padding, start, (most_rows, most_tokens));
        let end = end.unwrap_or(plan.rows());
        next = Some(end).filter(|&end| end < plan.rows());
        Some(start..end)
    })
}

/// Where the batch of [`batch_ranges`] that begins with the row `start` ends; none if rows behind the last of the plan
/// would be in it too.
pub fn full_batch(
    plan: &Plan,
    padding: Padding,
    start: usize,
    (most_rows, most_tokens): (NonZeroUsize, u64),
) -> Option<usize> {
    let most_tokens = most_tokens.min(REACH);
    let mut tokens = 0;
    for end in start..plan.rows() {
        let row = plan.room_of(end);
        tokens += row as u64 + u64::from(padding.room(row));
        if end - start == most_rows.get() || tokens > most_tokens && end > start {
            return Some(end);
        }
    }
    (plan.rows() - start == most_rows.get()).then_some(plan.rows())
}
