//! [`RowMembers`]: the pieces of each row, before the rows are put in order.

use super::balanced_order::{OrderedRows, balanced};
use super::cancel_checks::{TICK, collect};
use super::pieces::{Piece, Pieces};
use super::plan::Plan;
use crate::config::{PackOptions, RowOrder};
use crate::error::Result;
use crate::util::control::Control;
use crate::util::random::Random;

/// The place of a row that is left out. It is greater than any number of pieces.
const NOWHERE: u32 = u32::MAX;

/// The pieces of each row, by their indices, row after row.
#[derive(Debug)]
pub(super) struct RowMembers {
    members: Vec<u32>,
    offsets: Vec<u32>,
}

impl RowMembers {
    /// No rows, with capacity for all members.
    pub(super) fn with_capacity(members: usize) -> Self {
        Self { members: Vec::with_capacity(members), offsets: vec![0] }
    }

    /// The rows with these `members`, one after the other, and these `offsets`.
    pub(super) fn new(members: Vec<u32>, offsets: Vec<u32>) -> Self {
        Self { members, offsets }
    }

    /// The rows in which the piece `order[i]` is in row `row_of[i]`. Members keep the order of `order`.
    pub(super) fn grouped(
        order: &[u32],
        row_of: &[u32],
        rows: u32,
        control: &Control,
    ) -> Result<Self> {
        let mut offsets = vec![0_u32; rows as usize + 1];
        for rows in row_of.chunks(TICK) {
            control.tick()?;
            for &row in rows {
                offsets[row as usize + 1] += 1;
            }
        }
        for row in 0..rows as usize {
            offsets[row + 1] += offsets[row];
        }
        let mut next = offsets.clone();
        let mut members = vec![0; order.len()];
        for (order, rows) in order.chunks(TICK).zip(row_of.chunks(TICK)) {
            control.tick()?;
            for (&index, &row) in order.iter().zip(rows) {
                let at = &mut next[row as usize];
                members[*at as usize] = index;
                *at += 1;
            }
        }
        Ok(Self { members, offsets })
    }

    /// Appends a piece to the current row, which the next [`RowMembers::close`] ends.
    pub(super) fn extend(&mut self, piece: u32) {
        self.members.push(piece);
    }

    /// Ends the current row, unless it is empty.
    pub(super) fn close(&mut self) {
        let end = u32::try_from(self.members.len()).expect("pieces are counted by a u32");
        if self.offsets.last() != Some(&end) {
            self.offsets.push(end);
        }
    }

    /// Removes the pieces of the current row. `closed` pieces are in the rows before it.
    pub(super) fn truncate(&mut self, closed: usize) {
        self.members.truncate(closed);
    }

    pub(super) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    pub(super) fn row(&self, row: u32) -> &[u32] {
        let row = row as usize;
        &self.members[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }

    /// The plan of these rows of `pieces`, in the order of the options, and the pieces of the rows that this
    /// order leaves out.
    pub(super) fn into_plan(
        self,
        pieces: &Pieces,
        options: &PackOptions,
        control: &Control,
    ) -> Result<(Plan, Vec<Piece>)> {
        let ordered = self.order(pieces, options, control)?;
        let (once, again) = ordered.rows.split_at(ordered.rows.len() - ordered.repeated);
        let mut offsets = Vec::with_capacity(self.offsets.len());
        offsets.push(0);
        // Rows are read in order and written to distant places, because a write does not have to be waited
        // for.
        let mut places = vec![NOWHERE; self.len()];
        let mut end = 0;
        for rows in once.chunks(TICK) {
            control.tick()?;
            for &row in rows {
                let range = &self.offsets[row as usize..][..2];
                places[row as usize] = end;
                end += range[1] - range[0];
                offsets.push(u64::from(end));
            }
        }
        let mut members = vec![0; end as usize];
        for (first, places) in (0_u32..).step_by(TICK).zip(places.chunks(TICK)) {
            control.tick()?;
            for (row, &place) in (first..).zip(places).filter(|&(_, &place)| place != NOWHERE) {
                // Rows are short: a call for each would take longer than the copying.
                for (member, to) in self.row(row).iter().zip(&mut members[place as usize..]) {
                    *to = *member;
                }
            }
        }
        for rows in again.chunks(TICK) {
            control.tick()?;
            for &row in rows {
                members.extend_from_slice(self.row(row));
                offsets.push(members.len() as u64);
            }
        }
        offsets.extend((0..ordered.padding).map(|_| members.len() as u64));
        let left_out = ordered.left_out.iter().flat_map(|&row| self.row(row));
        let left_out = collect(left_out.map(|&piece| pieces.get(piece as usize)), control)?;
        let plan = Plan::gathered(options, pieces, members, offsets, ordered.repeated, control)?;
        Ok((plan, left_out))
    }

    /// The rows in the order of the options.
    fn order(
        &self,
        pieces: &Pieces,
        options: &PackOptions,
        control: &Control,
    ) -> Result<OrderedRows> {
        let mut rows: Vec<u32> = (0..).zip(0..self.len()).map(|(row, _)| row).collect();
        match options.order() {
            RowOrder::Shuffle => Random::new(options.seed).shuffle(&mut rows, control)?,
            RowOrder::Input if !options.strategy.needs_all_lengths() => {}
            RowOrder::Input => rows = self.by_first_piece(&rows, pieces.len(), control)?,
            RowOrder::Balanced => {
                let tokens = |piece: u32| pieces.get(piece as usize).tokens();
                let square = |piece: u32| u64::from(options.room(tokens(piece))).pow(2);
                let cost = |&row| self.row(row).iter().map(|&piece| square(piece)).sum::<u64>();
                let mut costs = Vec::with_capacity(rows.len());
                for rows in rows.chunks(TICK) {
                    control.tick()?;
                    costs.extend(rows.iter().map(cost));
                }
                return balanced(&costs, options, &mut Random::new(options.seed), control);
            }
        }
        Ok(OrderedRows { rows, ..OrderedRows::default() })
    }

    /// The rows by the first piece in each, which is in no other row.
    fn by_first_piece(&self, rows: &[u32], pieces: usize, control: &Control) -> Result<Vec<u32>> {
        let mut row_of = vec![NOWHERE; pieces];
        for rows in rows.chunks(TICK) {
            control.tick()?;
            for &row in rows {
                if let Some(&first) = self.row(row).iter().min() {
                    row_of[first as usize] = row;
                }
            }
        }
        control.tick()?;
        row_of.retain(|&row| row != NOWHERE);
        Ok(row_of)
    }
}
