//! A row per piece, in input order.

use std::num::NonZeroU32;

use super::{Piece, Plan, TICK};
use crate::control::Control;
use crate::error::Result;

pub(super) fn pack(pieces: &[Piece], max_length: NonZeroU32, control: &Control) -> Result<Plan> {
    let mut plan = Plan::with_capacity(max_length, pieces.len());
    for rows in pieces.chunks(TICK) {
        control.tick()?;
        for piece in rows {
            plan.push(std::slice::from_ref(piece));
        }
    }
    Ok(plan)
}
