//! Cancellable sorting: by a table of lengths if that is smaller than the data, else by comparison.

use super::cancel_checks::TICK;
use crate::error::Result;
use crate::util::control::Control;

/// Up to this length, a table with an entry for each length is cheap (some MiB) for any number of pieces.
const SMALL_TABLE: usize = 1 << 20;

/// True if a table with an entry for each length up to `longest` is worth its memory for `items` pieces.
///
/// A tree in place of the table of [`rows_by_room`](super::strategies::rows_by_room) makes `best_fit` take 1.0 to 2.5 times as long for a million
/// lengths of `benches/lengths.py` (November 2026, one core). A table alone would take gigabytes for rows without a bound.
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
    sort_by_key(&mut order, |index| std::cmp::Reverse(lengths[index as usize]), control)?;
    Ok(order)
}

/// Items that are sorted between two looks at the cancel flag: some milliseconds.
const RUN: usize = 1 << 17;

/// Sorts items by a key. The sort is stable.
pub(super) fn sort_by_key<K: Ord>(
    items: &mut [u32],
    key: impl Fn(u32) -> K,
    control: &Control,
) -> Result<()> {
    for run in items.chunks_mut(RUN) {
        control.tick()?;
        run.sort_by_key(|&item| key(item));
    }
    let mut sorted = RUN;
    let mut merged = Vec::with_capacity(if items.len() > RUN { items.len() } else { 0 });
    while sorted < items.len() {
        merged.clear();
        for pair in items.chunks(2 * sorted) {
            let (left, right) = pair.split_at(sorted.min(pair.len()));
            merge(left, right, &key, &mut merged, control)?;
        }
        items.copy_from_slice(&merged);
        sorted *= 2;
    }
    Ok(())
}

/// Merges two sorted runs. Of items with the same key, the left ones come first.
fn merge<K: Ord>(
    mut left: &[u32],
    mut right: &[u32],
    key: impl Fn(u32) -> K,
    merged: &mut Vec<u32>,
    control: &Control,
) -> Result<()> {
    while let (Some(&first), Some(&second)) = (left.first(), right.first()) {
        if merged.len().is_multiple_of(TICK) {
            control.tick()?;
        }
        if key(second) < key(first) {
            merged.push(second);
            right = &right[1..];
        } else {
            merged.push(first);
            left = &left[1..];
        }
    }
    merged.extend_from_slice(left);
    merged.extend_from_slice(right);
    Ok(())
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

/// The number of pieces of each length that occurs, from the shortest to the longest.
pub(super) fn histogram(lengths: &[u32], control: &Control) -> Result<Vec<(u32, u64)>> {
    let mut longest = 0;
    for chunk in lengths.chunks(TICK) {
        control.tick()?;
        longest = chunk.iter().fold(longest, |longest, length| longest.max(*length));
    }
    if table_pays(longest, lengths.len()) {
        let mut counts = vec![0_u64; longest as usize + 1];
        for chunk in lengths.chunks(TICK) {
            control.tick()?;
            for &length in chunk {
                counts[length as usize] += 1;
            }
        }
        return Ok((0..).zip(counts).filter(|&(_, count)| count > 0).collect());
    }
    let mut sorted = lengths.to_vec();
    sort_by_key(&mut sorted, |length| length, control)?;
    Ok(sorted.chunk_by(|a, b| a == b).map(|equal| (equal[0], equal.len() as u64)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::util::random::Random;

    #[test]
    fn more_items_than_a_run_are_sorted_as_the_standard_library_sorts_them() {
        let control = Control::default();
        for count in [0, 1, 1000, RUN, RUN + 1, 3 * RUN + 17] {
            let mut random = Random::new(7);
            let keys: Vec<u32> = (0..count).map(|_| random.below(999)).collect();
            let mut items: Vec<u32> = (0..).zip(&keys).map(|(index, _)| index).collect();
            let mut expected = items.clone();
            expected.sort_by_key(|&index| keys[index as usize]);
            sort_by_key(&mut items, |index| keys[index as usize], &control).expect("not cancelled");
            assert!(items == expected, "{count} items");
        }
    }

    #[test]
    fn a_sort_that_is_cancelled_on_its_way_ends() {
        let control = Control::default();
        let mut items: Vec<u32> = (0..1_000_000).rev().collect();
        let calls = std::cell::Cell::new(0_u32);
        let key = |item| {
            calls.set(calls.get() + 1);
            if calls.get() == 1_000_000 {
                control.cancel();
            }
            item
        };
        let ended = sort_by_key(&mut items, key, &control);
        assert!(matches!(ended, Err(Error::Cancelled)));
        assert!(calls.get() < 1_000_000 + 2 * 17 * u32::try_from(RUN).expect("small"));
    }
}
