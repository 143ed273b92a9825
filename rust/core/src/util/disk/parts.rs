//! [`PartsHasher`]: the BLAKE3 hash of a file, with the hashes of its parts, so that a part is checked without the rest.
//!
//! A part's hash is the chaining value of its subtree: the parts' hashes come to the hash of the file, so one pass makes both, and
//! wrong hashes of parts are found by the hash of the file alone.

use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root,
};
use blake3::{Hash, Hasher};

/// Bytes of a part, the last one apart: those of a request of remote storage. A power of two, as a subtree has it.
pub(crate) const PART: u64 = 8 << 20;

/// Bytes of the hash of a part.
const HASH: usize = blake3::OUT_LEN;

/// Hashes a file and its parts.
#[derive(Debug, Default)]
pub(crate) struct PartsHasher {
    /// The hashes of the parts that are complete and not the last.
    parts: Vec<ChainingValue>,
    open: Box<Hasher>,
    /// The bytes of the open part.
    filled: u64,
}

/// The hash of a file and those of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileHash {
    pub(crate) whole: Hash,
    /// The hashes of the parts, in hexadecimal and one behind the other; empty for a file of one part.
    pub(crate) parts: String,
}

impl PartsHasher {
    /// Takes the next bytes of the file.
    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.filled == PART {
                self.parts.push(self.open.finalize_non_root());
                self.open = part_hasher(self.parts.len() as u64);
                self.filled = 0;
            }
            let room = usize::try_from(PART - self.filled).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.open.update(now);
            self.filled += now.len() as u64;
            bytes = later;
        }
    }

    /// The hashes of all bytes so far.
    pub(crate) fn finish(mut self) -> FileHash {
        if self.parts.is_empty() {
            return FileHash { whole: self.open.finalize(), parts: String::new() };
        }
        let bytes = self.parts.len() as u64 * PART + self.filled;
        self.parts.push(self.open.finalize_non_root());
        let parts = self.parts.iter().map(|part| Hash::from_bytes(*part).to_hex().to_string());
        FileHash { whole: joined(&self.parts, bytes), parts: parts.collect() }
    }
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
        (is_whole && joined(&parts, bytes) == whole).then_some(Self { parts, whole })
    }

    /// Whether these are the bytes of the part `number`.
    pub(crate) fn is_part(&self, number: u64, bytes: &[u8]) -> bool {
        if self.parts.is_empty() {
            return number == 0 && blake3::hash(bytes) == self.whole;
        }
        let found = part_hasher(number).update(bytes).finalize_non_root();
        usize::try_from(number).is_ok_and(|number| self.parts.get(number) == Some(&found))
    }
}

/// The hasher of the part `number`.
fn part_hasher(number: u64) -> Box<Hasher> {
    let mut hasher = Box::<Hasher>::default();
    hasher.set_input_offset(number * PART);
    hasher
}

/// The hash of a file of several parts.
fn joined(parts: &[ChainingValue], bytes: u64) -> Hash {
    let (left, right) = subtrees(parts, bytes);
    merge_subtrees_root(&left, &right, Mode::Hash)
}

/// The chaining value of the subtree over some parts.
fn subtree(parts: &[ChainingValue], bytes: u64) -> ChainingValue {
    if let [part] = parts {
        return *part;
    }
    let (left, right) = subtrees(parts, bytes);
    merge_subtrees_non_root(&left, &right, Mode::Hash)
}

/// The chaining values of the left and of the right subtree over several parts.
fn subtrees(parts: &[ChainingValue], bytes: u64) -> (ChainingValue, ChainingValue) {
    let left = left_subtree_len(bytes);
    let count = usize::try_from(left / PART).expect("no more than there are parts");
    let (before, behind) = parts.split_at(count);
    (subtree(before, left), subtree(behind, bytes - left))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(count: u64) -> Vec<u8> {
        (0..251_u8).cycle().take(usize::try_from(count).expect("a small number")).collect()
    }

    #[test]
    fn hashes_of_parts_come_to_the_hash_of_the_file() {
        for (size, step) in [
            (0, 1),
            (1, 1),
            (PART, 1 << 20),
            (PART + 1, 999_983),
            (3 * PART, PART + 7),
            (5 * PART + 77, 1 << 20),
        ] {
            let bytes = bytes(size);
            let mut hasher = PartsHasher::default();
            bytes
                .chunks(usize::try_from(step).expect("small"))
                .for_each(|piece| hasher.update(piece));
            let FileHash { whole, parts } = hasher.finish();
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
        let mut hasher = PartsHasher::default();
        hasher.update(&bytes(2 * PART + 5));
        let FileHash { whole, parts } = hasher.finish();
        let other = blake3::hash(b"other");
        assert!(PartHashes::parse(other, &parts, 2 * PART + 5).is_none());
        assert!(PartHashes::parse(whole, &parts[64..], 2 * PART + 5).is_none());
        assert!(PartHashes::parse(whole, &parts, 2 * PART).is_none());
        assert!(PartHashes::parse(whole, "", 2 * PART + 5).is_none());
        assert!(PartHashes::parse(whole, "é", 2 * PART + 5).is_none());
    }
}
