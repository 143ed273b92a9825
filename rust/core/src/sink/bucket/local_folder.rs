//! [`guard`]: the folder of the local disk in which a job of a bucket runs: its lock, its name and its removal.

use std::fs;
use std::path::Path;

use super::uploaded_copies::UploadedCopies;
use crate::config::identity::Identity;
use crate::error::{Error, Result};
use crate::sink::file_names::MANIFEST;
use crate::sink::manifest::Manifest;
use crate::storage::BucketFolder;
use crate::util::control::Control;
use crate::util::disk::file_lock::FileLock;
use crate::util::disk::regular;
use crate::util::disk::regular::Links;
use crate::util::disk::removal::{remove_empty, remove_file};
use crate::util::wording::{message, set};

/// The ending of the lock file beside the folder of the local disk.
const LOCK_ENDING: &str = "lock";

/// The lock of the folder of the local disk: a run that was killed has given it back.
pub(in crate::sink) fn guard(
    dir: &Path,
    target: &BucketFolder,
    wait: bool,
    control: &Control,
) -> Result<FileLock> {
    let path = dir.with_extension(LOCK_ENDING);
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent).map_err(Error::io(parent))?;
    }
    let file = FileLock::from(regular::open_to_write(&path).map_err(Error::io(&path))?);
    loop {
        control.tick()?;
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(fs::TryLockError::WouldBlock) if wait => {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            Err(fs::TryLockError::WouldBlock) => {
                let reason = message![
                    "another process packs into it; ",
                    set("exists.wait", true),
                    " waits for it"
                ];
                return Err(Error::Busy { path: target.name(), reason });
            }
            Err(fs::TryLockError::Error(error)) => return Err(Error::io(path)(error)),
        }
    }
}

/// The name of the folder of the local disk among those of all machines. Who holds its lock is the run that wrote it.
pub(in crate::sink) fn owner(dir: &Path) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .or_else(|_| fs::read_to_string("/etc/hostname"))
        .unwrap_or_default();
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let mut hasher = blake3::Hasher::new();
    hasher.update(host.trim().as_bytes()).update(dir.as_os_str().as_encoded_bytes());
    hasher.finalize().to_hex()[..32].to_owned()
}

/// Removes a folder of the local disk in which the output of a job was finished.
pub(in crate::sink) fn remove_finished(dir: &Path, job: &Identity) -> Result<()> {
    if let Some(local) = Manifest::read(&dir.join(MANIFEST), Links::Refused)?
        && local.job.differences(job).is_none()
    {
        // It does no harm where it has to stay.
        let _ = remove_local(dir, &local);
    }
    Ok(())
}

/// Removes the files of a finished folder of the local disk, as far as they are as its manifest says, and the folder if nothing else
/// is in it.
pub(super) fn remove_local(dir: &Path, manifest: &Manifest) -> std::io::Result<()> {
    let removable = UploadedCopies::of(dir, manifest);
    for proof in removable.proofs() {
        remove_file(proof)?;
    }
    for name in crate::sink::file_names::split_folders() {
        let _ = remove_empty(&dir.join(name));
    }
    remove_empty(dir)
}
