//! The first bytes of Arrow IPC files, and the reason that one cannot be read further.

/// The first bytes of an Arrow IPC file; streams begin otherwise.
pub(crate) const FILE_MAGIC: &[u8] = b"ARROW1";

/// The error of a damaged IPC file.
pub(super) type IpcDamage = String;
