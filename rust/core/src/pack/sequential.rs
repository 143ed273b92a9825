//! In input order, into the one open row; a piece that does not fit closes it.

use std::num::NonZeroU32;

use super::{Piece, Plan, TICK};
use crate::control::Control;
use crate::error::Result;

pub(super) fn pack(pieces: &[Piece], max_length: NonZeroU32, control: &Control) -> Result<Plan> {
    next_fit(pieces.iter().copied(), max_length, control)
}

/// Fills one row after the other, and never looks back.
pub(super) fn next_fit(
    pieces: impl ExactSizeIterator<Item = Piece>,
    max_length: NonZeroU32,
    control: &Control,
) -> Result<Plan> {
    let mut plan = Plan::with_capacity(max_length, pieces.len());
    let mut space = max_length.get();
    for (index, piece) in pieces.enumerate() {
        if index % TICK == 0 {
            control.tick()?;
        }
        if piece.length > space {
            plan.close();
            space = max_length.get();
        }
        plan.extend(piece);
        space -= piece.length;
    }
    if !plan.lengths().is_empty() {
        plan.close();
    }
    Ok(plan)
}
