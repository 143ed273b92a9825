//! A row per piece, in input order.

use super::rows::RowMembers;
use super::ticks::TICK;
use crate::control::Control;
use crate::error::Result;

pub(super) fn pack(lengths: &[u32], control: &Control) -> Result<RowMembers> {
    let mut rows = RowMembers::with_capacity(lengths.len());
    for (at, (index, _)) in (0..).zip(lengths).enumerate() {
        if at % TICK == 0 {
            control.tick()?;
        }
        rows.extend(index);
        rows.close();
    }
    Ok(rows)
}
