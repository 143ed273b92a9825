//! All logic of fastpack: packs conversations and texts into Arrow rows for training.
//!
//! ```text
//! source ─► record ─► template ─► document ─► store ─► pack ─► objective, assemble ─► sink
//!  Block     Record    Rendered    Documents    Store    Plan        RecordBatch     files
//!    └─────────┴──────────┴─────────┴─ pipeline, stream ─┴──────────────┴──────────────┘
//! ```
//!
//! A stage knows the type that the stage before it makes, and nothing else of it. Only [`pipeline`] and
//! [`stream`] know the order.

mod bits;
pub mod bounds;
pub mod config;
pub mod control;
mod count;
pub mod error;
mod expected;
mod frames;
pub mod hex_hash;
mod histogram;
pub mod identity;
pub mod ledger;
pub mod listed_path;
pub mod message;
mod note;
mod notes;
mod ordered;
mod random;
mod read_ahead;
mod reason;
pub mod redaction;
mod regular;
mod removal;
pub mod report;
mod room;
mod sample;
pub mod sealed;
pub mod state_dict;
mod storage;
pub mod threads;
pub mod timing;
pub mod wording;
mod writeback;

pub mod source;

pub mod record;

pub mod template;

pub mod document;

pub mod objective;

pub mod store;

pub mod pack;

pub mod assemble;

pub mod sink;

pub mod batch;
pub mod pipeline;
pub mod stream;

pub use config::Options;
pub use control::Control;
pub use error::{Error, Origin, Result};
pub use fastpack_template::json;
pub use report::Report;
