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

pub mod config;
pub mod error;
pub mod report;
mod storage;
pub mod util;

pub mod source;

pub mod record;

pub mod template;

pub mod document;

pub mod objective;

pub mod pack;

pub mod assemble;

pub mod sink;

pub mod pipeline;
pub mod stream;

pub use config::Options;
pub use error::{Error, Origin, Result};
pub use fastpack_picture as picture;
pub use fastpack_template::json;
pub use report::Report;
pub use util::control::Control;
