//! [`LineFile`]: an open line file, which is read for one extent after the other.

use std::path::Path;
use std::sync::Arc;

use crate::storage::OpenFile;

/// An open line file.
pub(crate) struct LineFile {
    pub(crate) path: Arc<Path>,
    pub(crate) file: OpenFile,
    /// True if an index line stands before each record.
    pub(crate) indexed: bool,
}
