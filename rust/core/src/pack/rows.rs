//! [`Rows`]: which pieces share a row, before the rows are put in order.

use super::random::Random;
use super::{Piece, Plan};
use crate::config::{Order, PackOptions, Strategy};

/// Which pieces share a row, by their indices, row after row.
#[derive(Debug)]
pub(super) struct Rows {
    members: Vec<u32>,
    offsets: Vec<u32>,
}

impl Rows {
    /// No rows yet, with room for the members of all.
    pub(super) fn with_capacity(members: usize) -> Self {
        Self { members: Vec::with_capacity(members), offsets: vec![0] }
    }

    /// Those that have `members` one after the other, and end where `offsets` says.
    pub(super) fn new(members: Vec<u32>, offsets: Vec<u32>) -> Self {
        Self { members, offsets }
    }

    /// Those in which the piece `order[i]` is in row `row_of[i]`, and members keep that order.
    pub(super) fn grouped(order: &[u32], row_of: &[u32], rows: u32) -> Self {
        let mut offsets = vec![0_u32; rows as usize + 1];
        for &row in row_of {
            offsets[row as usize + 1] += 1;
        }
        for row in 0..rows as usize {
            offsets[row + 1] += offsets[row];
        }
        let mut next = offsets.clone();
        let mut members = vec![0; order.len()];
        for (&index, &row) in order.iter().zip(row_of) {
            let at = &mut next[row as usize];
            members[*at as usize] = index;
            *at += 1;
        }
        Self { members, offsets }
    }

    /// Appends a piece to the row that the next [`Rows::close`] ends.
    pub(super) fn extend(&mut self, piece: u32) {
        self.members.push(piece);
    }

    /// Ends a row, unless it would be empty.
    pub(super) fn close(&mut self) {
        let end = u32::try_from(self.members.len()).expect("pieces are counted by a u32");
        if self.offsets.last() != Some(&end) {
            self.offsets.push(end);
        }
    }

    /// Takes back what was appended to the row that is not closed, of which `closed` pieces are in rows before.
    pub(super) fn truncate(&mut self, closed: usize) {
        self.members.truncate(closed);
    }

    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    fn row(&self, row: usize) -> &[u32] {
        &self.members[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }

    /// The plan of these rows of `pieces`, in the order that the options ask for.
    pub(super) fn into_plan(self, pieces: &[Piece], options: &PackOptions) -> Plan {
        let mut members = Vec::with_capacity(self.members.len());
        let mut offsets = Vec::with_capacity(self.offsets.len());
        offsets.push(0);
        for row in self.order(options) {
            members.extend_from_slice(self.row(row as usize));
            offsets.push(members.len() as u64);
        }
        Plan::gathered(options.max_length, pieces, &members, offsets)
    }

    /// The rows in the order that the options ask for.
    fn order(&self, options: &PackOptions) -> Vec<u32> {
        let mut order: Vec<u32> = (0..).zip(0..self.len()).map(|(row, _)| row).collect();
        match (options.order(), options.strategy) {
            (Order::Shuffle, _) => Random::new(options.seed).shuffle(&mut order),
            (Order::Input, Strategy::Mix | Strategy::BestFit | Strategy::Heap) => {
                order.sort_unstable_by_key(|&row| self.row(row as usize).iter().min());
            }
            // These make their rows in input order.
            (Order::Input, Strategy::Sequential | Strategy::Concat | Strategy::None) => {}
        }
        order
    }
}
