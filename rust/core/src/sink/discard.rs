//! [`discard`]: removes damaged tokens of a cache or of a group, so that they can be made again.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::files::{LOTS, MANIFEST, REPORT, TOKENS};
use super::leftovers;
use super::lock::{Lock, refuse_no_folder};
use super::owned;
use super::survey::{self};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::regular;

/// Whether the folder `dir`, which only `job` uses, has a manifest, but not all files of `job`.
pub fn is_damaged(dir: &Path, job: &Identity) -> Result<bool> {
    let has_manifest = dir.join(MANIFEST).symlink_metadata().is_ok();
    Ok(has_manifest && survey::finished(dir, job)?.is_none())
}

/// Removes the files of `job` in the folder `dir`, which only this job uses, unless all of them are
/// unchanged.
///
/// One of several calls at a time does it. Returns whether any file was damaged. Files that fastpack does not
/// write there stay.
pub fn discard(dir: &Path, job: &Identity, control: &Control) -> Result<bool> {
    if !regular::is_folder(dir) {
        return Ok(false);
    }
    refuse_no_folder(dir)?;
    let (lock, _) = Lock::take(dir, None, true, control)?;
    if survey::finished(dir, job)?.is_some()
        && let Ok(kept) = survey::kept(dir)
        && owned::digest(&kept.tokens, control)?.is_some()
    {
        return Ok(false);
    }
    lock.clear(|name| !leftovers::is_ours(name, job))?;
    // The manifest goes first: without it, no run takes the other files for whole.
    for name in [MANIFEST, REPORT, TOKENS, LOTS] {
        let path = dir.join(name);
        if path.symlink_metadata().is_ok_and(|found| found.is_file()) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(Error::io(path)(error));
                }
                _ => {}
            }
        }
    }
    Ok(true)
}
