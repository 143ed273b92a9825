//! [`remove_least_used`]: removes the files of a cache that were used least recently, where it holds too many bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::lock_record;

/// Hexadecimal digits of the name of a folder of files.
pub(super) const DIGITS: usize = 2;

/// A file of the cache.
pub(super) struct BlockFile {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

/// The files of a cache by their names, its own and those of others.
pub(super) fn files(dir: &Path) -> Vec<BlockFile> {
    let folders = fs::read_dir(dir).into_iter().flatten().flatten();
    let folders = folders.filter(|folder| folder.file_type().is_ok_and(|it| it.is_dir()));
    let entries = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten());
    let kept = entries.flatten().filter_map(|entry| {
        let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        let path = entry.path();
        let used = match path.extension() {
            None => name_of(&path).and(metadata.modified().ok()),
            Some(_) => lock_record::used(&path),
        }?;
        Some(BlockFile { path, bytes: metadata.len(), used })
    });
    kept.collect()
}

/// The bytes of all files of a cache in the folder `dir`.
pub(super) fn bytes_in(dir: &Path) -> u64 {
    files(dir).iter().map(|file| file.bytes).sum()
}

/// The name of a block of a cache, by its path.
pub(super) fn name_of(path: &Path) -> Option<blake3::Hash> {
    let (folder, name) = (path.parent()?.file_name()?.to_str()?, path.file_name()?.to_str()?);
    let is_name = folder.len() == DIGITS && !name.bytes().any(|it| it.is_ascii_uppercase());
    blake3::Hash::from_hex(format!("{folder}{name}")).ok().filter(|_| is_name)
}

/// Removes the files used least recently until there are no more bytes than `wanted`: blocks by `remove_block`, which tells if it
/// did. Returns the bytes that there are then.
pub(super) fn remove_least_used(
    dir: &Path,
    wanted: u64,
    remove_block: impl Fn(&Path) -> bool,
) -> u64 {
    let mut all = files(dir);
    all.sort_by_key(|file| file.used);
    let mut held = all.iter().map(|file| file.bytes).sum();
    for file in all {
        if held <= wanted {
            break;
        }
        let is_block = file.path.extension().is_none();
        let removed = if is_block {
            remove_block(&file.path)
        } else {
            lock_record::remove_unheld(&file.path)
        };
        if removed {
            held -= file.bytes;
        }
    }
    held
}
