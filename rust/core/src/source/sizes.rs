//! How much is read at a time.

/// Bytes of a block: small enough that the first rows of a stream come at once and a block's text stays in
/// the second-level cache, large enough that handing it over costs nothing.
pub(super) const BLOCK_BYTES: usize = 256 << 10;

/// Bytes that one record may have; a file without an end of one is not data.
pub(super) const LONGEST_RECORD: usize = 1 << 30;

/// Bytes to read behind so many that hold no whole record: as many again, so that a long record is looked at twice on average,
/// but no more than show that it is too long: whether it is does not depend on what else was read.
pub(super) fn wanted_behind(before: usize) -> usize {
    BLOCK_BYTES.max(before).min((LONGEST_RECORD + 1).saturating_sub(before)).max(1)
}

/// The byte order mark that some editors put before UTF-8 text.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Bytes looked at to tell an array from lines: whatever stands before its bracket is blank.
pub(super) const PEEKED: usize = 4 << 10;
