//! Whole documents, kept as columns. Packing reads their lengths, and rows are copied from them.
//!
//! [`Store`] keeps them in memory, or finds them in the [`Log`], the token log: the file of finished blocks. A killed job resumes
//! from it, and documents beyond the memory budget are read back from it.

mod document_store;
mod entry;
mod load;
mod memory_budget;
mod progress;
mod stored_documents;
mod token_log;

pub use document_store::Store;
pub use entry::LogEntry;
pub use load::{DocumentPart, Loaded};
pub use progress::LogProgress;
pub use token_log::{Log, LoggedBlock};
