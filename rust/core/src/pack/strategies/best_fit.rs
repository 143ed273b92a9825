//! Best-fit decreasing: longest first, each piece into the row with the least sufficient room.
//!
//! The rows and their members are those of TRL's `bfd`: equal lengths are taken in input order, and of rows
//! with the same room, the one that has had it for longest.

use super::rows_by_room::{EqualRows, RowSpaces, SpaceTable, SpaceTree};
use crate::config::PackOptions;
use crate::error::Result;
use crate::pack::cancel_checks::TICK;
use crate::pack::cancellable_sort::{histogram, longest_first, table_pays};
use crate::pack::row_members::RowMembers;
use crate::util::control::Control;

pub(crate) fn pack(
    lengths: &[u32],
    options: &PackOptions,
    control: &Control,
) -> Result<RowMembers> {
    let histogram = histogram(lengths, control)?;
    let order = longest_first(lengths, &histogram, control)?;
    let max = options.row_limit().get();
    let (row_of, rows) = if table_pays(max, lengths.len()) {
        assign(&histogram, order.len(), options, SpaceTable::new(max), control)?
    } else {
        assign(&histogram, order.len(), options, SpaceTree::default(), control)?
    };
    RowMembers::grouped(&order, &row_of, rows, control)
}

/// The row of each piece from the longest to the shortest, and the number of rows.
///
/// Pieces of one length are placed together. The best row for the first of them is the best
/// for the next as long as it has room, since no row with less room had enough. So it takes as many as it
/// holds, one search serves all rows with the same room, and rows with the same new room are moved together.
fn assign(
    histogram: &[(u32, u64)],
    pieces: usize,
    options: &PackOptions,
    mut spaces: impl RowSpaces,
    control: &Control,
) -> Result<(Vec<u32>, u32)> {
    let (max, most) = (options.row_limit().get(), options.most_documents());
    let mut row_of = Vec::with_capacity(pieces);
    let mut opened = 0;
    let mut next_look = 0;
    for &(length, count) in histogram.iter().rev() {
        let mut count = u32::try_from(count).expect("pieces are counted by a u32");
        while count > 0 {
            let space = spaces.least(length).unwrap_or_else(|| {
                let rows = count.div_ceil((max / length).min(most));
                spaces.push(max, EqualRows { first: opened, rows, documents: 0 });
                opened += rows;
                max
            });
            while count > 0
                && let Some(alike) = spaces.pop(space)
            {
                let each = (space / length).min(most - alike.documents);
                let rows = alike.rows.min(count / each);
                let mut deal = |first: u32, rows: u32, taken: u32| {
                    row_of
                        .extend((first..first + rows).flat_map(|row| (0..taken).map(move |_| row)));
                    let documents = alike.documents + taken;
                    if space > taken * length && documents < most && rows > 0 {
                        spaces.push(space - taken * length, EqualRows { first, rows, documents });
                    }
                };
                deal(alike.first, rows, each);
                count -= rows * each;
                if rows < alike.rows {
                    // Fewer pieces are left than another row would take.
                    let partial = u32::from(count > 0);
                    deal(alike.first + rows, partial, count);
                    count = 0;
                    if rows + partial < alike.rows {
                        let first = alike.first + rows + partial;
                        let rows = alike.rows - rows - partial;
                        spaces.restore(space, EqualRows { first, rows, ..alike });
                    }
                }
            }
            if row_of.len() >= next_look {
                control.tick()?;
                next_look = row_of.len() + TICK;
            }
        }
    }
    Ok((row_of, opened))
}
