//! [`PART`]: the size of the parts that files are written in, and the error of a file that is damaged.

use crate::error::{Error, Origin};
use crate::report::ledger::Reason;
use crate::source::discovery::found::SourceFile;

/// Decoded bytes of a frame, a row group or a record batch: some times those of a block, so that entering one costs
/// little, and few enough that each lane of a stream can hold one.
pub(super) const PART: usize = 1 << 20;

/// The error of a file that cannot be read to its end.
pub(super) fn damaged(file: &SourceFile, line: u64, reason: Reason, message: String) -> Error {
    let origin = Origin { path: file.path.clone(), line };
    Error::Record { origin, reason, message }
}
