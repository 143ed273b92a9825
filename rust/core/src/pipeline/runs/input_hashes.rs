//! [`InputHashes`]: the hashes of the files of a run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::pipeline::documents::tokenized_blocks::TokenizedBlock;
use crate::report::listed_path::ListedPath;
use crate::util::disk::hex_hash::HexHash;

/// The hashes of the files of a run, computed as their blocks are read.
#[derive(Default)]
pub(in crate::pipeline) struct InputHashes {
    /// The files that were read, each with its hash. A file that was read several times is there as often.
    read: Vec<(ListedPath, HexHash)>,
    /// The current file. A hasher takes 2 KB, and only one file needs one at a time.
    open: Option<(Arc<Path>, blake3::Hasher)>,
}

impl InputHashes {
    /// Adds a block. Blocks come in input order.
    pub(in crate::pipeline) fn add(&mut self, outcome: &TokenizedBlock) {
        self.add_block(outcome.documents.path(), outcome.fingerprint.as_deref());
    }

    /// Adds a block of the file `path`, by the hash of its records.
    pub(super) fn add_block(&mut self, path: &Arc<Path>, fingerprint: Option<&str>) {
        if self.open.as_ref().is_none_or(|(open, _)| open != path) {
            self.close();
            self.open = Some((Arc::clone(path), blake3::Hasher::new()));
        }
        if let (Some((_, hasher)), Some(block)) = (&mut self.open, fingerprint) {
            hasher.update(block.as_bytes());
        }
    }

    /// Ends the current file.
    fn close(&mut self) {
        if let Some((path, hasher)) = self.open.take() {
            self.read.push((ListedPath::from(&path), hasher.finalize().into()));
        }
    }

    /// The hash of each file, by its path. The hash of a file that was read before is a hash of both hashes.
    pub(in crate::pipeline) fn into_hashes(mut self) -> BTreeMap<ListedPath, HexHash> {
        self.close();
        let mut read = self.read;
        read.sort_by(|(a, _), (b, _)| a.cmp(b));
        read.dedup_by(|(path, hash), (before, both)| {
            let again = path == before;
            if again {
                *both = joined(both, hash);
            }
            again
        });
        read.into_iter().collect()
    }
}

/// The hash of a file of which two parts were read, each with its hash.
pub(super) fn joined(before: &HexHash, later: &HexHash) -> HexHash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(before.as_bytes()).update(later.as_bytes());
    hasher.finalize().into()
}
