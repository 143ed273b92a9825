//! [`LineFile`]: an open line file, which is read for one extent after the other.

use std::path::Path;
use std::sync::Arc;

use crate::storage::OpenFile;

/// An open line file.
pub(super) struct LineFile {
    pub(super) path: Arc<Path>,
    pub(super) file: OpenFile,
    /// Whether an index line stands before each record.
    pub(super) indexed: bool,
}
