//! [`FileHash`]: the BLAKE3 hash of a file, with the hashes of its parts, so that a part is checked without the rest.
//!
//! A part's hash is the chaining value of its subtree: the parts' hashes come to the hash of the file, so one pass makes both, and
//! wrong hashes of parts are found by the hash of the file alone. Parts consist of pieces in the same way, which are hashed on many
//! threads.

use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root,
};
use blake3::{Hash, Hasher};

/// Bytes of a part, the last one apart: those of a request of remote storage. A power of two, as a subtree has it.
pub(crate) const PART: u64 = 8 << 20;

/// Pieces of a part.
const PIECES_OF_PART: usize = 8;

/// Bytes of the hash of a part.
const HASH: usize = blake3::OUT_LEN;

/// Bytes of a piece, which one thread hashes.
pub(crate) const PIECE: usize = 1 << 20;

/// The hash of a file, and the hashes of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileHash {
    pub(crate) whole: Hash,
    /// The hashes of the parts, in hexadecimal and one behind the other; empty for a file of one part.
    pub(crate) parts: String,
}

impl FileHash {
    /// The hashes of a file of one piece.
    pub(crate) fn of_piece<'a>(bytes: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = Hasher::new();
        for bytes in bytes {
            hasher.update(bytes);
        }
        Self { whole: hasher.finalize(), parts: String::new() }
    }

    /// The hashes of a file of `bytes` bytes, from those of its pieces.
    ///
    /// # Panics
    ///
    /// If it is a file of one piece, or of another number of them.
    pub(crate) fn of_pieces(pieces: &[ChainingValue], bytes: u64) -> Self {
        assert_eq!(pieces.len() as u64, bytes.div_ceil(PIECE as u64), "a hash for each piece");
        let whole = joined(pieces, bytes, PIECE as u64);
        if bytes <= PART {
            return Self { whole, parts: String::new() };
        }
        let numbered = (0..).zip(pieces.chunks(PIECES_OF_PART));
        let parts = numbered.map(|(number, pieces)| {
            let part = subtree(pieces, PART.min(bytes - number * PART), PIECE as u64);
            Hash::from_bytes(part).to_hex().to_string()
        });
        Self { whole, parts: parts.collect() }
    }
}

/// The hash of a piece of a file of several.
pub(crate) fn hash_of_piece<'a>(
    number: usize,
    bytes: impl IntoIterator<Item = &'a [u8]>,
) -> ChainingValue {
    let mut hasher = hasher_at(number as u64 * PIECE as u64);
    for bytes in bytes {
        hasher.update(bytes);
    }
    hasher.finalize_non_root()
}

/// The hashes of the parts of a file, as a manifest lists them.
#[derive(Clone, Debug)]
pub(crate) struct PartHashes {
    parts: Vec<ChainingValue>,
    whole: Hash,
}

impl PartHashes {
    /// The hashes of a file of `bytes` bytes with the hash `whole`; `None` if those of the parts are not hashes of that file.
    pub(crate) fn parse(whole: Hash, parts: &str, bytes: u64) -> Option<Self> {
        if bytes <= PART && parts.is_empty() {
            return Some(Self { parts: Vec::new(), whole });
        }
        let digits: &[u8] = parts.as_bytes();
        let hashes = digits.chunks(2 * HASH).map(|hash| Hash::from_hex(hash).ok().map(Into::into));
        let parts: Vec<ChainingValue> = hashes.collect::<Option<_>>()?;
        let is_whole = bytes > PART && parts.len() as u64 == bytes.div_ceil(PART);
        (is_whole && joined(&parts, bytes, PART) == whole).then_some(Self { parts, whole })
    }

    /// True if these are the bytes of the part `number`.
    pub(crate) fn is_part(&self, number: u64, bytes: &[u8]) -> bool {
        if self.parts.is_empty() {
            return number == 0 && blake3::hash(bytes) == self.whole;
        }
        self.is_hashed_part(number, hasher_of_part(number).update(bytes))
    }

    /// True if `hasher`, of [`hasher_of_part`], was given the bytes of the part `number`, of several.
    pub(crate) fn is_hashed_part(&self, number: u64, hasher: &Hasher) -> bool {
        self.is_hash(number, &hasher.finalize_non_root())
    }

    fn is_hash(&self, number: u64, hash: &ChainingValue) -> bool {
        usize::try_from(number).is_ok_and(|number| self.parts.get(number) == Some(hash))
    }
}

/// The hasher of the part `number` of a file of several.
pub(crate) fn hasher_of_part(number: u64) -> Box<Hasher> {
    hasher_at(number * PART)
}

/// The hasher of a subtree that begins at byte `start` of a file.
fn hasher_at(start: u64) -> Box<Hasher> {
    let mut hasher = Box::<Hasher>::default();
    hasher.set_input_offset(start);
    hasher
}

/// The hash of a file of several subtrees of `size` bytes; the last may be shorter.
fn joined(hashes: &[ChainingValue], bytes: u64, size: u64) -> Hash {
    let (left, right) = subtrees(hashes, bytes, size);
    merge_subtrees_root(&left, &right, Mode::Hash)
}

/// The chaining value of the subtree over some subtrees.
fn subtree(hashes: &[ChainingValue], bytes: u64, size: u64) -> ChainingValue {
    if let [hash] = hashes {
        return *hash;
    }
    let (left, right) = subtrees(hashes, bytes, size);
    merge_subtrees_non_root(&left, &right, Mode::Hash)
}

/// The chaining values of the left and of the right subtree over several subtrees.
fn subtrees(hashes: &[ChainingValue], bytes: u64, size: u64) -> (ChainingValue, ChainingValue) {
    let left = left_subtree_len(bytes);
    let count = usize::try_from(left / size).expect("no more than there are subtrees");
    let (before, behind) = hashes.split_at(count);
    (subtree(before, left, size), subtree(behind, bytes - left, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(count: u64) -> Vec<u8> {
        (0..251_u8).cycle().take(usize::try_from(count).expect("a small number")).collect()
    }

    fn hash(bytes: &[u8]) -> FileHash {
        let pieces: Vec<&[u8]> = bytes.chunks(PIECE).collect();
        if pieces.len() <= 1 {
            return FileHash::of_piece(pieces);
        }
        // Each piece comes in parts too.
        let halves = |piece: &&[u8]| piece.len() / 2;
        let hashes = pieces.iter().enumerate().map(|(number, piece)| {
            let (before, behind) = piece.split_at(halves(piece));
            hash_of_piece(number, [before, behind])
        });
        FileHash::of_pieces(&hashes.collect::<Vec<_>>(), bytes.len() as u64)
    }

    #[test]
    fn hashes_of_pieces_and_parts_come_to_the_hash_of_the_file() {
        const PIECE: u64 = super::PIECE as u64;
        let odd = [0, 1, PIECE, PIECE + 1, 3 * PIECE, PART - 1, 5 * PART + 77];
        for size in [PART, PART + 1, 3 * PART, 4 * PART + 3 * PIECE].into_iter().chain(odd) {
            let bytes = bytes(size);
            let FileHash { whole, parts } = hash(&bytes);
            assert_eq!(whole, blake3::hash(&bytes), "{size} bytes");
            let count = if size <= PART { 0 } else { size.div_ceil(PART) };
            assert_eq!(parts.len() as u64, count * 64);
            let listed = PartHashes::parse(whole, &parts, size).expect("hashes of this file");
            for (number, part) in bytes.chunks(8 << 20).enumerate() {
                assert!(listed.is_part(number as u64, part));
                assert!(!listed.is_part(number as u64 + 1, part));
                let mut other = part.to_vec();
                other[0] ^= 1;
                assert!(!listed.is_part(number as u64, &other));
            }
        }
    }

    #[test]
    fn hashes_of_another_file_are_none() {
        let FileHash { whole, parts } = hash(&bytes(2 * PART + 5));
        let other = blake3::hash(b"other");
        assert!(PartHashes::parse(other, &parts, 2 * PART + 5).is_none());
        assert!(PartHashes::parse(whole, &parts[64..], 2 * PART + 5).is_none());
        assert!(PartHashes::parse(whole, &parts, 2 * PART).is_none());
        assert!(PartHashes::parse(whole, "", 2 * PART + 5).is_none());
        assert!(PartHashes::parse(whole, "é", 2 * PART + 5).is_none());
    }
}
