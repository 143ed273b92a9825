//! Lengths to a [`Plan`], for callers who have the tokens themselves.

use super::bound::lower_bound;
use super::cancel_checks::TICK;
use super::cancellable_sort::histogram;
use super::cut_overlong::{OverlongCut, cut};
use super::pieces::{Piece, Pieces};
use super::plan::Plan;
use super::planner::{aligned, plan, require_memory_for};
use crate::config::{Overlong, PackOptions, Side};
use crate::error::{Error, Result};
use crate::util::control::Control;
use crate::util::wording::{Message, message, set};

/// The plan of bare lengths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedLengths {
    /// The rows. A document's number is the index of its length.
    pub plan: Plan,
    /// The documents without a token in any row, ascending.
    pub dropped: Vec<u32>,
    /// A lower bound of the number of rows for the other documents.
    pub lower_bound: u64,
}

/// Lengths of documents, before they are cut into pieces.
#[derive(Clone, Debug)]
pub enum DocumentLengths {
    /// All documents fit into a row, and are packed whole.
    Fit(Pieces),
    /// Some lengths may be too long, or invalid.
    Unchecked(Vec<i64>),
}

impl DocumentLengths {
    /// Takes the lengths. If all fit into a row, that is one pass.
    ///
    /// Fails with [`Error::Option`] about `lengths` if there are too many.
    pub fn new(lengths: &[i64], options: &PackOptions) -> Result<Self> {
        options.validate()?;
        if u32::try_from(lengths.len()).is_err() {
            return Err(Error::option(
                "lengths",
                "holds more than 4294967295 lengths; plan them in parts",
            ));
        }
        // Usually all fit. This pass has no early exit and no branches.
        let most = options.row_limit().get().min(i32::MAX.cast_unsigned());
        let fits = |&length: &i64| (1..=i64::from(most)).contains(&length);
        if lengths.iter().fold(true, |all, length| all & fits(length)) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "they fit")]
            let lengths = lengths.iter().map(|&length| length as u32).collect();
            return Ok(Self::Fit(Pieces::whole(lengths)));
        }
        Ok(Self::Unchecked(lengths.to_vec()))
    }

    /// Cuts the documents into pieces; returns the documents that are dropped too, ascending. Fails as [`plan`](Self::plan).
    pub(super) fn into_pieces(
        self,
        options: &PackOptions,
        control: &Control,
    ) -> Result<(Pieces, Vec<u32>)> {
        match self {
            Self::Fit(pieces) => Ok((pieces, Vec::new())),
            Self::Unchecked(lengths) => cut_all(&lengths, options, control),
        }
    }

    /// Cuts and packs the documents. By default, those longer than a row are dropped.
    ///
    /// Fails with [`Error::Option`] about `lengths` if one is below 1, or too long for the offsets of its
    /// pieces, and, with [`Overlong::Error`], if one is more than `max_length`.
    pub fn plan(self, options: &PackOptions, control: &Control) -> Result<PlannedLengths> {
        let (pieces, mut dropped) = self.into_pieces(options, control)?;
        let planned = plan(pieces, options, control)?;
        dropped.extend(planned.unpacked_documents(control)?.iter().map(|(document, _)| document));
        dropped.sort_unstable();
        let plan = planned.plan;
        let packed = aligned(plan.lengths_of(0..plan.distinct_rows()), options);
        let lower_bound = lower_bound(&histogram(&packed, control)?, options);
        Ok(PlannedLengths { plan, dropped, lower_bound })
    }
}

/// The pieces of documents of these lengths, and the documents that are too long, ascending.
fn cut_all(
    lengths: &[i64],
    options: &PackOptions,
    control: &Control,
) -> Result<(Pieces, Vec<u32>)> {
    let refuse = |index: usize, length: i64, rule: Message| {
        let fault = Message::from(format!("holds `{length}` at index {index}; "));
        Err(Error::option("lengths", fault.with(rule)))
    };
    require_memory_for(pieces_of(lengths, options))?;
    let mut pieces = Pieces::with_capacity(lengths.len());
    let mut dropped = Vec::new();
    for ((document, index), &length) in (0_u32..).zip(0_usize..).zip(lengths) {
        if index % TICK == 0 {
            control.tick()?;
        }
        if length < 1 {
            return refuse(index, length, "a length must be at least 1".into());
        }
        if starts_late(options) && i32::try_from(length).is_err() {
            let rule = "a document with pieces that begin after its start must be below 2147483648 \
                        tokens long";
            return refuse(index, length, rule.into());
        }
        let tokens = u32::try_from(length).unwrap_or(u32::MAX);
        match cut(tokens, &[], options, Overlong::Drop) {
            OverlongCut::Into(stretches) => {
                for (start, length) in stretches {
                    if pieces.len().is_multiple_of(TICK) {
                        control.tick()?;
                    }
                    pieces.push(Piece::new(document, start, length));
                }
            }
            OverlongCut::Drop => dropped.push(document),
            OverlongCut::Refuse => {
                let rule = message![
                    "more than ",
                    set("max_length", options.row_limit().get()),
                    "; pass ",
                    set("overlong", "drop"),
                    " or \"truncate\"",
                ];
                return refuse(index, length, rule);
            }
        }
    }
    Ok((pieces, dropped))
}

/// The number of pieces that documents of these lengths are cut into.
fn pieces_of(lengths: &[i64], options: &PackOptions) -> u64 {
    if options.overlong != Some(Overlong::Split) {
        return lengths.len() as u64;
    }
    let max = u64::from(options.row_limit().get());
    let pieces = |&length: &i64| u64::try_from(length).unwrap_or(0).div_ceil(max);
    lengths.iter().map(pieces).fold(0, u64::saturating_add)
}

/// True if a piece can start after the first token of its document.
fn starts_late(options: &PackOptions) -> bool {
    options.strategy.cuts_at_row_end()
        || options.overlong == Some(Overlong::Split)
        || options.truncation_side == Side::Left
}
