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
    let most_tokens = most_tokens.min(REACH);
    let mut next = Some(0_usize);
    std::iter::from_fn(move || {
        let start = next?;
        let last = plan.rows().min(start.saturating_add(most_rows.get()));
        let mut tokens = 0;
        let mut end = start;
        while end < last {
            let row = plan.room_of(end);
            tokens += row as u64 + u64::from(padding.room(row));
            if tokens > most_tokens && end > start {
                break;
            }
            end += 1;
        }
        next = Some(end).filter(|&end| end < plan.rows());
        Some(start..end)
    })
}
