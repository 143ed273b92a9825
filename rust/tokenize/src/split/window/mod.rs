//! Cuts ASCII text sixty-four bytes at a time: shifts and additions of class masks give the boundaries.
//!
//! A window begins at the start of a piece, so no state is carried. Only boundaries that the window proves
//! are used: it ends before the first character that is not ASCII, and its last piece is left to the next
//! window. Rare cases, such as a blank before a newline, end the window early. If nothing is decided, the
//! scanner of the pattern takes one piece.
//!
//! [`ascii_boundaries`] has the rules, [`fill_window`] the loop over the windows.

mod ascii_boundaries;
mod fill_window;

pub(super) use ascii_boundaries::{AsciiPattern, AsciiRules};
pub(crate) use fill_window::window;
pub(super) use fill_window::{WindowedScanner, fill};

#[cfg(test)]
mod tests;
