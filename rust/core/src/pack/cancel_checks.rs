//! The frequency at which planning checks the cancel flag.

use crate::error::Result;
use crate::util::control::Control;

/// Pieces between two checks of the cancel flag: far below a millisecond for any strategy.
pub(crate) const TICK: usize = 4096;

/// Collects `items`, and checks the cancel flag meanwhile, since there may be millions.
pub(super) fn collect<T>(mut items: impl Iterator<Item = T>, control: &Control) -> Result<Vec<T>> {
    let mut all = Vec::with_capacity(items.size_hint().0);
    loop {
        control.tick()?;
        let before = all.len();
        all.extend(items.by_ref().take(TICK));
        if all.len() < before + TICK {
            return Ok(all);
        }
    }
}
