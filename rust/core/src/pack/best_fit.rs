//! Best-fit decreasing: longest first, each piece into the row that it fills best.
//!
//! Rows, their members and both orders are those of TRL's `bfd`: equal lengths in input order, of equally
//! good rows the one that has had that room for longest, rows in the order in which they were opened.

use std::num::NonZeroU32;

use super::order::{histogram, longest_first, table_pays};
use super::spaces::{Spaces, Table, Tree};
use super::{Piece, Plan, TICK};
use crate::control::Control;
use crate::error::Result;

pub(super) fn pack(pieces: &[Piece], max_length: NonZeroU32, control: &Control) -> Result<Plan> {
    let order = longest_first(pieces, control)?;
    let max = max_length.get();
    let (row_of, rows) = if table_pays(max, pieces.len()) {
        assign(pieces, max, Table::new(max), control)?
    } else {
        assign(pieces, max, Tree::default(), control)?
    };
    Ok(Plan::grouped(max_length, pieces, &order, &row_of, rows as usize))
}

/// The row of each piece from the longest to the shortest, and the number of rows.
///
/// Pieces of one length are dealt with together. A row that was the best for the first of them is the best
/// for the next as long as it has room, since no row with less room had enough. So it takes as many as it
/// holds, and one search serves all rows with the same room.
fn assign(
    pieces: &[Piece],
    max_length: u32,
    mut spaces: impl Spaces,
    control: &Control,
) -> Result<(Vec<u32>, u32)> {
    let mut row_of = Vec::with_capacity(pieces.len());
    let mut rows = 0;
    let mut next_look = 0;
    for (length, mut count) in histogram(pieces.iter().map(|piece| piece.length)).into_iter().rev()
    {
        while count > 0 {
            let space = spaces.least(length).unwrap_or_else(|| {
                spaces.push(max_length, rows);
                rows += 1;
                max_length
            });
            while count > 0
                && let Some(row) = spaces.pop(space)
            {
                let taken = u32::try_from(count).unwrap_or(u32::MAX).min(space / length);
                count -= u64::from(taken);
                row_of.extend((0..taken).map(|_| row));
                if space > taken * length {
                    spaces.push(space - taken * length, row);
                }
            }
            if row_of.len() >= next_look {
                control.tick()?;
                next_look = row_of.len() + TICK;
            }
        }
    }
    Ok((row_of, rows))
}
