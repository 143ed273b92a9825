//! Opens regular files alone: a pipe can make a program wait for ever, and a device has no end.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Opens a regular file for reading.
///
/// # Errors
///
/// What the system says, or [`io::ErrorKind::InvalidInput`] for a folder, a pipe, a socket or a device.
pub fn open(path: &Path) -> io::Result<File> {
    // Before opening it: that alone waits at a pipe without a writer, and can change a device.
    check(path)?;
    File::open(path)
}

/// The bytes of a regular file.
///
/// # Errors
///
/// As [`open`], and what the system says of reading.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of a regular file.
///
/// # Errors
///
/// As [`read`], and [`io::ErrorKind::InvalidData`] for what is not UTF-8.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Fails with [`io::ErrorKind::InvalidInput`] for what is there, but is no regular file.
///
/// # Errors
///
/// What the system says, or that it is no regular file.
pub fn check(path: &Path) -> io::Result<()> {
    if path.metadata()?.is_file() {
        return Ok(());
    }
    let reason = "not a regular file; write what it gives to a file, and name that";
    Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
}
