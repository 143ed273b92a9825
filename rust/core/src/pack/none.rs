//! A row per piece, in input order.

use super::rows::Rows;
use super::{Piece, TICK};
use crate::control::Control;
use crate::error::Result;

pub(super) fn pack(pieces: &[Piece], control: &Control) -> Result<Rows> {
    let mut rows = Rows::with_capacity(pieces.len());
    for (at, (index, _)) in (0..).zip(pieces).enumerate() {
        if at % TICK == 0 {
            control.tick()?;
        }
        rows.extend(index);
        rows.close();
    }
    Ok(rows)
}
