//! [`plan`]: pieces to rows, by the chosen strategy.

use std::borrow::Cow;

use super::cancel_checks::{TICK, collect};
use super::pieces::{Piece, Pieces, too_many};
use super::plan::Plan;
use super::row_members::RowMembers;
use super::strategies::concat::Concatenated;
use super::strategies::{best_fit, heap, mix};
use super::strategies::{concat, in_order};
use crate::config::{PackOptions, Strategy};
use crate::error::Result;
use crate::report::ledger::Reason;
use crate::util::control::Control;
use crate::util::free_memory;
use crate::util::random::Random;

/// A plan, and the pieces that are in none of its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRows {
    /// The rows.
    pub plan: Plan,
    /// The pieces in no row.
    pub left_out: Vec<UnpackedPiece>,
}

/// A piece that is in no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnpackedPiece {
    /// The piece.
    pub piece: Piece,
    /// The reason: the tail of `concat`, or a row that ranks could not share.
    pub reason: Reason,
}

impl PlannedRows {
    /// Takes out the pieces that were left out for a reason.
    pub fn take_out(&mut self, reason: Reason) -> Vec<Piece> {
        let (taken, rest) =
            std::mem::take(&mut self.left_out).into_iter().partition(|left| left.reason == reason);
        self.left_out = rest;
        let taken: Vec<UnpackedPiece> = taken;
        taken.into_iter().map(|left| left.piece).collect()
    }

    /// The documents with a left-out piece and no packed piece, ascending, each with its first reason.
    pub fn unpacked_documents(&self, control: &Control) -> Result<Vec<(u32, Reason)>> {
        let Some(last) = self.left_out.iter().map(|left| left.piece.document).max() else {
            return Ok(Vec::new());
        };
        let mut reasons = vec![None; last as usize + 1];
        for left in self.left_out.chunks(TICK).rev() {
            control.tick()?;
            for left in left.iter().rev() {
                reasons[left.piece.document as usize] = Some(left.reason);
            }
        }
        for members in self.plan.members().chunks(TICK) {
            control.tick()?;
            for member in members {
                if let Some(reason) = reasons.get_mut(*member as usize) {
                    *reason = None;
                }
            }
        }
        let unpacked =
            (0..).zip(reasons).filter_map(|(document, reason)| Some((document, reason?)));
        collect(unpacked, control)
    }
}

/// Packs `pieces` into rows of at most [`max_length`](PackOptions::max_length) tokens and
/// [`max_documents_per_pack`](PackOptions::max_documents_per_pack) pieces.
///
/// Every piece is in exactly one row. `concat` cuts pieces first, and may leave out a tail. Rows for several
/// ranks may be left out or repeated too. Pieces are taken in input order, or, with [`PackOptions::shuffle`],
/// in an order that the seed decides.
///
/// # Panics
///
/// If a piece is empty, or longer than `max_length` for any strategy but `concat`. Call [`cut`](super::cut)
/// first.
pub fn plan(pieces: Pieces, options: &PackOptions, control: &Control) -> Result<PlannedRows> {
    let cuts = options.strategy.cuts_at_row_end();
    let longest = if cuts { u32::MAX } else { options.row_limit().get() };
    check(&padded_lengths(&pieces, options), longest, control)?;
    require_memory_for(pieces_in_rows(&pieces, options))?;
    let pieces = if options.shuffle {
        pieces.shuffled(&mut Random::new(options.seed), control)?
    } else {
        pieces
    };
    let Concatenated { pieces, rows, tail } = if cuts {
        concat::pack_cut(&pieces, options, control)?
    } else {
        let rows = whole(&padded_lengths(&pieces, options), options, control)?;
        Concatenated { pieces, rows, tail: Vec::new() }
    };
    control.tick()?;
    let (plan, remainder) = rows.into_plan(&pieces, options, control)?;
    let left_out = |reason| move |piece| UnpackedPiece { piece, reason };
    let tail = tail.into_iter().map(left_out(Reason::Tail));
    let remainder = remainder.into_iter().map(left_out(Reason::Remainder));
    Ok(PlannedRows { plan, left_out: collect(tail.chain(remainder), control)? })
}

/// The rows of a strategy that cuts no piece, for pieces with these rooms.
fn whole(lengths: &[u32], options: &PackOptions, control: &Control) -> Result<RowMembers> {
    match options.strategy {
        Strategy::Mix => mix::pack(lengths, options, control),
        Strategy::BestFit => best_fit::pack(lengths, options, control),
        Strategy::Heap => heap::pack(lengths, options, control),
        Strategy::Sequential | Strategy::None | Strategy::Concat => {
            in_order::pack(lengths, options, control)
        }
    }
}

/// Panics if a piece is empty or takes more than `longest`.
fn check(padded_lengths: &[u32], longest: u32, control: &Control) -> Result<()> {
    let mut bounds = (u32::MAX, 0);
    for padded_lengths in padded_lengths.chunks(TICK) {
        control.tick()?;
        bounds = padded_lengths
            .iter()
            .fold(bounds, |(least, most), &length| (least.min(length), most.max(length)));
    }
    let fits = padded_lengths.is_empty() || bounds.0 > 0 && bounds.1 <= longest;
    assert!(fits, "a piece has at least one token and at most `max_length`");
    Ok(())
}

/// The share of a row that each piece takes, in tokens.
pub(super) fn padded_lengths<'a>(pieces: &'a Pieces, options: &PackOptions) -> Cow<'a, [u32]> {
    if pieces.are_plain() {
        return aligned(pieces.lengths(), options);
    }
    pieces.iter().map(|piece| piece.share(options)).collect()
}

/// The rooms of pieces of these lengths.
pub(super) fn aligned<'a>(lengths: &'a [u32], options: &PackOptions) -> Cow<'a, [u32]> {
    if options.align_documents_to.is_none() {
        return Cow::Borrowed(lengths);
    }
    lengths.iter().map(|&length| options.room(length)).collect()
}

/// Bytes of memory that planning takes for each piece: an estimate from the arrays that hold the piece, its
/// row and its place in each step. It only decides whether a plan is refused before it starts.
const BYTES_OF_PIECE: u64 = 64;

/// The number of pieces in the rows. It is larger than that of `pieces` if `concat` cuts them.
fn pieces_in_rows(pieces: &Pieces, options: &PackOptions) -> u64 {
    let whole = pieces.len() as u64;
    if !options.strategy.cuts_at_row_end() {
        return whole;
    }
    let tokens: u64 = pieces.lengths().iter().copied().map(u64::from).sum();
    whole + tokens / u64::from(options.row_limit().get())
}

/// Fails if a plan cannot count this many pieces, or memory has no room for them.
pub(super) fn require_memory_for(pieces: u64) -> Result<()> {
    if u32::try_from(pieces).is_err() {
        return Err(too_many());
    }
    free_memory::require(pieces * BYTES_OF_PIECE, "max_length", || {
        format!("is so short that documents are cut into {pieces} pieces")
    })
}
