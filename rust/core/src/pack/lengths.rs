//! Packing alone: bare lengths from a caller who keeps the tokens, to a [`Plan`].

use std::num::NonZeroU32;

use super::order::histogram;
use super::{Cut, Piece, Plan, TICK, cut, lower_bound, plan};
use crate::config::{Overlong, Strategy, check_max_length};
use crate::control::Control;
use crate::error::{Error, Result};

/// What came of bare lengths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedLengths {
    /// The rows; a document's number is the index of its length.
    pub plan: Plan,
    /// The documents that are in no row, ascending.
    pub dropped: Vec<u32>,
    /// The number of rows below which no packing of the others can go.
    pub lower_bound: u64,
}

/// Packs documents of these lengths.
///
/// Fails with [`Error::Option`] about `lengths` if one is below 1, and with [`Overlong::Error`] if one is
/// more than `max_length`.
pub fn plan_lengths(
    lengths: &[i64],
    max_length: NonZeroU32,
    strategy: Strategy,
    overlong: Overlong,
    control: &Control,
) -> Result<PlannedLengths> {
    check_max_length(max_length)?;
    let refuse = |index: usize, length: i64, rule: &str| {
        Err(Error::option("lengths", format!("holds `{length}` at index {index}; {rule}")))
    };
    if u32::try_from(lengths.len()).is_err() {
        return Err(Error::option(
            "lengths",
            "holds more than 4294967295 lengths; plan them in parts",
        ));
    }
    let mut pieces = Vec::with_capacity(lengths.len());
    let mut dropped = Vec::new();
    for ((document, index), &length) in (0_u32..).zip(0_usize..).zip(lengths) {
        if index % TICK == 0 {
            control.tick()?;
        }
        let tokens = match u64::try_from(length) {
            Ok(0) | Err(_) => return refuse(index, length, "a length must be at least 1"),
            Ok(tokens) => tokens,
        };
        match cut(tokens, max_length, overlong) {
            Cut::Whole | Cut::Start => {
                let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
                pieces.push(Piece { document, start: 0, length: tokens.min(max_length.get()) });
            }
            Cut::Drop => dropped.push(document),
            Cut::Refuse => {
                let rule = format!(
                    "more than max_length={max_length}; pass overlong=\"drop\" or overlong=\"truncate\""
                );
                return refuse(index, length, &rule);
            }
        }
    }
    let plan = plan(&pieces, max_length, strategy, control)?;
    let lower_bound = lower_bound(&histogram(plan.lengths().iter().copied()), max_length);
    Ok(PlannedLengths { plan, dropped, lower_bound })
}
