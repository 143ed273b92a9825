//! [`path_of`]: the path of a key in its store.

use std::io;

use object_store::path::Path;

/// The path of a key in its store.
pub(in crate::storage) fn path_of(key: &str) -> io::Result<Path> {
    let refuse = |_| {
        let reason =
            "is a key that cannot be read: it has empty parts, `.` or `..` between its slashes";
        io::Error::new(io::ErrorKind::InvalidInput, reason)
    };
    Path::parse(key).map_err(refuse)
}
