//! [`ContentHashes`]: the hashes of the files of a run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::pipeline::documents::intake::Outcome;
use crate::report::listed_path::ListedPath;
use crate::util::disk::hex_hash::HexHash;

/// The hashes of the files of a run, computed as their blocks are read.
#[derive(Default)]
pub(in crate::pipeline) struct ContentHashes {
    /// The files that were read, each with its hash.
    read: BTreeMap<ListedPath, HexHash>,
    /// The current file. A hasher takes 2 KB, and only one file needs one at a time.
    open: Option<(Arc<Path>, blake3::Hasher)>,
}

impl ContentHashes {
    /// Adds a block. Blocks come in input order.
    pub(in crate::pipeline) fn add(&mut self, outcome: &Outcome) {
        let path = outcome.documents.path();
        if self.open.as_ref().is_none_or(|(open, _)| open != path) {
            self.close();
            self.open = Some((Arc::clone(path), blake3::Hasher::new()));
        }
        if let (Some((_, hasher)), Some(block)) = (&mut self.open, &outcome.fingerprint) {
            hasher.update(block.as_bytes());
        }
    }

    /// Ends the current file. The hash of a file that was read before is a hash of both hashes.
    fn close(&mut self) {
        let Some((path, hasher)) = self.open.take() else { return };
        let hash = hasher.finalize();
        let both = |before: &HexHash| {
            blake3::Hasher::new().update(before.as_bytes()).update(hash.as_bytes()).finalize()
        };
        let path = ListedPath::from(&path);
        let hash = self.read.get(&path).map_or(hash, both);
        self.read.insert(path, hash.into());
    }

    /// The hash of each file, by its path.
    pub(in crate::pipeline) fn into_hashes(mut self) -> BTreeMap<ListedPath, HexHash> {
        self.close();
        self.read
    }
}
