//! Whole documents, kept as columns. Packing reads their lengths, and rows are copied from them.
//!
//! [`DocumentStore`] keeps them in memory, or finds them in the [`TokenLog`], the token log: the file of finished blocks. A killed job resumes
//! from it, and documents beyond the memory budget are read back from it.

mod document_store;
mod entry;
mod load;
mod log_progress;
mod memory_budget;
mod stored_documents;
mod token_log;

pub use document_store::DocumentStore;
pub use entry::LogEntry;
pub use load::{DocumentPart, LoadedParts};
pub use log_progress::LogProgress;
pub use token_log::{LoggedBlock, TokenLog};
