//! The order of rows for ranks that train together: groups of rows of equal attention cost, one row for each rank.
//!
//! Ranks wait for the slowest of them at every step. Rows are full, but a row of one long document costs more than
//! one of many short ones; so rows are sorted by cost, and neighbours go together. Only rows near each other
//! in a random order are sorted, so that steps stay mixed.

use std::cmp::Reverse;

use super::cancel_checks::TICK;
use super::cancellable_sort::sort_by_key;
use crate::config::{OnRemainder, PackOptions};
use crate::error::Result;
use crate::util::control::Control;
use crate::util::free_memory;
use crate::util::random::Random;

/// Groups that are sorted together: few enough that rows of all kinds occur in every part of an epoch. The
/// most expensive row of a step then costs 5 % to 6 % more attention than the mean of its step; in a random
/// order it costs more than 50 % more (chat lengths in rows of 8192, 8 and 64 ranks, November 2026;
/// `tests/python/packing/test_balance.py`).
const WINDOW: usize = 32;

/// Bytes of memory for each added row: its place in the order, and its end in the plan.
const BYTES_OF_ROW: u64 = 16;

/// Rows in the order in which they are written.
#[derive(Debug, Default)]
pub(super) struct OrderedRows {
    pub(super) rows: Vec<u32>,
    /// The repeated rows at the end.
    pub(super) repeated: usize,
    /// The number of padding rows after them.
    pub(super) padding: usize,
    /// The dropped rows.
    pub(super) left_out: Vec<u32>,
}

/// Groups of rows of equal cost; `costs` has the cost of each row.
///
/// Fails with [`Error::Option`](crate::Error::Option) about `order.ranks` if memory has no room for the rows that are added.
pub(super) fn balanced(
    costs: &[u64],
    options: &PackOptions,
    random: &mut Random,
    control: &Control,
) -> Result<OrderedRows> {
    let ranks = options.balance_ranks.map_or(1, |size| size.get() as usize);
    let mut rows: Vec<u32> = (0..).zip(costs).map(|(row, _)| row).collect();
    random.shuffle(&mut rows, control)?;
    let full = rows.len() / ranks;
    let left_out = match options.on_remainder {
        OnRemainder::Drop => rows.split_off(full * ranks),
        OnRemainder::Pad | OnRemainder::Repeat => Vec::new(),
    };
    for window in rows.chunks_mut(WINDOW.saturating_mul(ranks)) {
        sort_by_key(window, |row| (Reverse(costs[row as usize]), row), control)?;
    }
    let mut groups: Vec<u32> = (0..).zip(0..full).map(|(group, _)| group).collect();
    random.shuffle(&mut groups, control)?;
    let group = |group: u32| &rows[group as usize * ranks..][..ranks];
    let mut ordered: Vec<u32> = Vec::with_capacity(rows.len());
    for at in groups {
        if ordered.len() % TICK < ranks {
            control.tick()?;
        }
        ordered.extend_from_slice(group(at));
    }
    let rest = &rows[full * ranks..];
    ordered.extend_from_slice(rest);
    let missing = if rest.is_empty() { 0 } else { ranks - rest.len() };
    free_memory::require(missing as u64 * BYTES_OF_ROW, "order.ranks", || {
        format!("asks for {missing} rows more than there are, so that {ranks} ranks have as many")
    })?;
    let (repeated, padding) = match options.on_remainder {
        OnRemainder::Repeat => (missing, 0),
        OnRemainder::Pad | OnRemainder::Drop => (0, missing),
    };
    // The last rows are the cheapest of their window, and include the rest.
    ordered.extend(rows.iter().rev().cycle().take(repeated));
    Ok(OrderedRows { rows: ordered, repeated, padding, left_out })
}
