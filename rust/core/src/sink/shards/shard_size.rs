//! [`ShardSize`]: tells when a shard is full, by the bytes of the columns of its rows.

use crate::sink::formats::cells::ColumnNumbers;

/// The size of the current shard, and the size at which the next one begins.
pub(in crate::sink) struct ShardSize {
    bytes: u64,
    most: u64,
}

impl ShardSize {
    /// An empty shard. One of `most` bytes or more is full, and every shard holds a row.
    pub(in crate::sink) fn of(most: u64) -> Self {
        Self { bytes: 0, most: most.max(1) }
    }

    /// True if the next row goes into another shard.
    pub(in crate::sink) fn is_full(&self) -> bool {
        self.bytes >= self.most
    }

    /// Counts a row of these columns.
    pub(in crate::sink) fn add_row(&mut self, columns: &[ColumnNumbers<'_>], row: usize) {
        self.bytes += columns.iter().map(|column| column.bytes(row)).sum::<u64>();
    }

    /// Begins another shard.
    pub(in crate::sink) fn begin(&mut self) {
        self.bytes = 0;
    }
}
