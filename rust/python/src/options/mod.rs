//! Converts Python arguments to options of the core. It holds no defaults.
//!
//! [`job_options`] puts all options of a job together; the other files have those of one kind.

mod chat_template;
mod columns;
mod images;
pub(super) mod inputs;
mod job_options;
pub(super) mod objective;
pub(super) mod option_words;
pub(super) mod output;
pub(super) mod packing;
mod source_shares;
mod special_tokens;
pub(super) mod storage;
pub(super) mod stream;
mod train_on;
pub(super) mod values;

pub(crate) use chat_template::{PyConversation, PyTemplateKwargs};
pub(crate) use columns::{PyColumn, PyColumns};
pub(crate) use job_options::{PyBatchSize, PyCacheSize, PyOptions, PySample, PyThreads, PyVerify};
