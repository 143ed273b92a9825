//! The amounts of data that are read at a time.

/// Bytes of a block: small enough that the first rows of a stream come at once and a block's text stays in
/// the second-level cache, large enough that handing it over costs nothing.
pub(crate) const BLOCK_BYTES: usize = 256 << 10;

/// The most bytes of one record. A longer one is no data.
pub(super) const LONGEST_RECORD: usize = 1 << 30;

/// The bytes to read after `before` bytes without a whole record: as many again, so that each byte of a long
/// record is scanned twice on average, but no more than the limit of a record needs. So the rest of the input
/// does not decide whether it is too long.
pub(super) fn wanted_behind(before: usize) -> usize {
    BLOCK_BYTES.max(before).min((LONGEST_RECORD + 1).saturating_sub(before)).max(1)
}

/// The byte order mark that some editors put before UTF-8 text.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Bytes that are read to tell an array from lines: everything before its bracket is white space.
pub(super) const PEEKED: usize = 4 << 10;
