//! [`RowWork`]: the work on the rows of a file that a [`ShardFile`](super::shard_file::ShardFile) hands to threads.

use std::io;

use arrow::buffer::Buffer;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use blake3::hazmat::ChainingValue;

use super::disk_file::DiskFile;
use crate::sink::formats::{EncodedRows, RowEncoder};
use crate::util::disk::file_hash::hash_of_piece;

/// The work on the rows of a file. Simulations wait in its place.
pub(in crate::sink) trait RowWork: Send + Sync {
    /// Encodes rows; `stopped` tells that nobody waits for them any more.
    fn encode(
        &self,
        rows: &[RecordBatch],
        stopped: &dyn Fn() -> bool,
    ) -> Result<EncodedRows, ArrowError>;

    /// The hash of a piece, which is not the only one of its file.
    fn hash(&self, number: usize, piece: &[Buffer]) -> ChainingValue {
        hash_of_piece(number, piece.iter().map(Buffer::as_slice))
    }

    /// Writes a piece at the end of the file.
    fn write(&self, disk: &mut DiskFile, piece: &[Buffer]) -> io::Result<()> {
        disk.append(piece.iter().map(Buffer::as_slice))
    }
}

impl RowWork for RowEncoder {
    fn encode(
        &self,
        rows: &[RecordBatch],
        stopped: &dyn Fn() -> bool,
    ) -> Result<EncodedRows, ArrowError> {
        self.encode(rows, stopped)
    }
}
