//! Opens only regular files: a read from a pipe can wait for ever, and a device has no end.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Opens a regular file for reading.
///
/// # Errors
///
/// The error of the system, or [`io::ErrorKind::InvalidInput`] for a folder, a pipe, a socket or a device.
pub fn open(path: &Path) -> io::Result<File> {
    // The check comes before opening: opening a pipe without a writer waits, and opening a device can change
    // it.
    check(path)?;
    File::open(path)
}

/// The bytes of a regular file.
///
/// # Errors
///
/// The errors of [`open`], and the error of the system when it reads.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of a regular file.
///
/// # Errors
///
/// The errors of [`read`], and [`io::ErrorKind::InvalidData`] if the file is not UTF-8.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Fails with [`io::ErrorKind::InvalidInput`] if the path exists and is not a regular file.
///
/// # Errors
///
/// The error of the system, or the error that it is not a regular file.
pub fn check(path: &Path) -> io::Result<()> {
    if path.metadata()?.is_file() {
        return Ok(());
    }
    let reason = "not a regular file; write what it gives to a file, and name that";
    Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
}
