//! Jinja's filters.
//!
//! [`apply_filter`] has them all, and those that take more than a few lines are in the other files.

mod apply_filter;
mod numbers;
mod sequences;
mod texts;
