//! Plans of rows: laws of all strategies, the lengths that they plan, and rows that stay open.

mod laws;
mod lengths;
mod open;
