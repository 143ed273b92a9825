//! The lines of the list of finished shards, each with a hash of all lines before it.

use crate::sink::file_names::number_of_shard;
use crate::sink::manifest::WrittenShard;

/// The separator between a shard and the hash of its line.
const SEAL: &[u8] = b",\"line\":\"";

/// The end of a line.
const END: &[u8] = b"\"}\n";

/// The line of a shard after a line with the hash `last`, and its hash.
pub(super) fn line(file: &WrittenShard, last: &blake3::Hash) -> (Vec<u8>, blake3::Hash) {
    let mut line = serde_json::to_vec(file).expect("strings and numbers become JSON");
    let mut hasher = blake3::Hasher::new();
    hasher.update(last.as_bytes());
    hasher.update(&line);
    let hash = hasher.finalize();
    line.pop();
    line.extend_from_slice(SEAL);
    line.extend_from_slice(hash.to_hex().as_bytes());
    line.extend_from_slice(END);
    (line, hash)
}

/// The number of shards that a list names, however its text is spoilt: a lost newline, seal or line takes nothing from it, as
/// long as a later line is there.
pub(crate) fn count_listed(text: &[u8]) -> usize {
    let lines = || text.split_inclusive(|&byte| byte == b'\n');
    let seals = text.windows(SEAL.len()).filter(|it| *it == SEAL).count();
    let behind = lines()
        .filter_map(|line| serde_json::from_slice::<WrittenShard>(line).ok())
        .filter_map(|file| Some(number_of_shard(&file.name)? + 1))
        .max();
    lines().count().max(seals).max(behind.unwrap_or(0))
}
