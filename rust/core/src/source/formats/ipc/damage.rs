//! The first bytes of Arrow IPC files, and the reason that one cannot be read further.

/// The first bytes of an Arrow IPC file; streams begin otherwise.
pub(crate) const FILE_MAGIC: &[u8] = b"ARROW1";

/// The reason that a file cannot be read further.
pub(super) type Damage = String;
