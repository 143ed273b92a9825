//! Read-ahead: tells the system which bytes of a file will be read, so that the disk can begin early.
//!
//! It is advice only. Where the system takes none, files are read all the same.

use std::fs::File;
use std::ops::Range;

use crate::error::Result;
use crate::util::control::Control;

/// Bytes of one piece of advice: few enough to be cancelled between two.
const STEP: u64 = 8 << 20;

/// Tells the system that these bytes will be read.
pub(crate) fn announce(file: &File, bytes: Range<u64>) {
    #[cfg(target_os = "linux")]
    if let Some(length) = bytes.end.checked_sub(bytes.start).and_then(std::num::NonZeroU64::new) {
        use rustix::fs::{Advice, fadvise};
        let _ = fadvise(file, bytes.start, Some(length), Advice::WillNeed);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, bytes);
}

/// Reads bytes of a file into memory in order, as many as memory has room for beside `others` bytes.
///
/// A disk reads a file in order in a fraction of the time that the same bytes take in small pieces. So bytes
/// that will be read in pieces are read in order first.
pub(crate) fn bring(file: &File, bytes: Range<u64>, others: u64, control: &Control) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let room = available().unwrap_or(0).saturating_sub(others);
    let mut at = bytes.start;
    while at < bytes.end.min(bytes.start.saturating_add(room)) {
        control.tick()?;
        announce(file, at..(at + STEP).min(bytes.end));
        at += STEP;
    }
    Ok(())
}

/// Bytes of memory that are free, or that the system can free; `None` where the system does not tell.
fn available() -> Option<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    in_bytes(meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?)
}

/// The bytes of a size that the system writes in kB.
fn in_bytes(size: &str) -> Option<u64> {
    size.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn sizes_are_read_as_the_system_writes_them() {
        assert_eq!(in_bytes("   24026616 kB"), Some(24_026_616 << 10));
        assert_eq!(in_bytes("24 MB"), None);
        assert_eq!(in_bytes("99999999999999999999 kB"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_tells_what_it_has() {
        assert!(available().is_some_and(|bytes| bytes > 0));
    }

    #[test]
    fn advice_ends_with_the_file_or_the_call() {
        let mut file = tempfile::tempfile().expect("a folder for temporary files");
        file.write_all(&[1; 100]).expect("room for 100 bytes");
        let control = Control::default();
        announce(&file, 0..0);
        assert!(bring(&file, 0..100, 0, &control).is_ok());
        control.cancel();
        assert!(bring(&file, 0..100, 0, &control).is_err());
        // With nothing to read, or no room for it, the system is not asked.
        assert!(bring(&file, 100..100, 0, &control).is_ok());
        assert!(bring(&file, 0..100, u64::MAX, &control).is_ok());
    }
}
