//! [`Trace`]: records a run of the interpreter over one conversation as a program for others.
//!
//! Conversations of one structure (the same keys and roles) differ only in their texts, and in the values
//! that are no texts. What a template does with anything else is the same for all of them. A trace records
//! what the template does with texts and values: where they are printed, what was computed of them before,
//! and each condition on them with its outcome (a guard). The interpreter runs as always, over a real
//! conversation, and reports to the trace ([`hooks`], [`functions`]). The trace stops at the first use of a
//! text that it cannot follow. For a use of a value that it cannot follow, it adds a guard on the whole
//! value: the program serves conversations with the same value.
//!
//! Texts and values are identified by their addresses, and every text that is computed of one is a new
//! string.
//!
//! Begin with [`run_trace`]; [`string_origins`] follows texts, [`record_values`] other values.

mod addresses;
mod functions;
mod hooks;
mod messages;
mod record_values;
mod run_trace;
mod string_origins;

pub use run_trace::{Trace, TraceInput};
