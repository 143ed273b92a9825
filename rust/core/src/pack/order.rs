//! Sorting by length where a table is smaller than the data, and by comparison where it is not.

use super::TICK;
use crate::control::Control;
use crate::error::Result;

/// Up to this length a table with an entry for each length is cheap (some MiB) whatever the number of pieces.
const SMALL_TABLE: usize = 1 << 20;

/// Whether a table with an entry for each length up to `longest` is worth its memory for `items` pieces.
pub(super) fn table_pays(longest: u32, items: usize) -> bool {
    longest as usize <= SMALL_TABLE.max(items.saturating_mul(4))
}

/// The indices of `lengths` from the longest to the shortest, equal ones in input order.
pub(super) fn longest_first(
    lengths: &[u32],
    histogram: &[(u32, u64)],
    control: &Control,
) -> Result<Vec<u32>> {
    let longest = histogram.last().map_or(0, |&(length, _)| length);
    if table_pays(longest, lengths.len()) {
        return by_counting(lengths, histogram, longest, control);
    }
    let mut order: Vec<u32> = (0..).zip(lengths).map(|(index, _)| index).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(lengths[index as usize]));
    control.tick()?;
    Ok(order)
}

fn by_counting(
    lengths: &[u32],
    histogram: &[(u32, u64)],
    longest: u32,
    control: &Control,
) -> Result<Vec<u32>> {
    let mut next = vec![0_u32; longest as usize + 1];
    let mut longer = 0;
    for &(length, count) in histogram.iter().rev() {
        next[length as usize] = longer;
        longer += u32::try_from(count).expect("pieces are counted by a u32");
    }
    let mut order = vec![0; lengths.len()];
    for (index, chunk) in (0_u32..).step_by(TICK).zip(lengths.chunks(TICK)) {
        control.tick()?;
        for (index, &length) in (index..).zip(chunk) {
            let slot = &mut next[length as usize];
            order[*slot as usize] = index;
            *slot += 1;
        }
    }
    Ok(order)
}

/// How many pieces have each length that occurs, from the shortest to the longest.
pub(super) fn histogram(lengths: &[u32]) -> Vec<(u32, u64)> {
    let longest = lengths.iter().copied().max().unwrap_or(0);
    if table_pays(longest, lengths.len()) {
        let mut counts = vec![0_u64; longest as usize + 1];
        for &length in lengths {
            counts[length as usize] += 1;
        }
        return (0..).zip(counts).filter(|&(_, count)| count > 0).collect();
    }
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    sorted.chunk_by(|a, b| a == b).map(|equal| (equal[0], equal.len() as u64)).collect()
}
