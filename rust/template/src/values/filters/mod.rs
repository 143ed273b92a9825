//! Jinja's filters.
//!
//! [`apply_filter`] dispatches to all filters; the longer ones are in the other files.

mod apply_filter;
mod numbers;
mod sequences;
mod texts;
