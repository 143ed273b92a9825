//! [`unique_hex`]: a text that no other run has.

use std::hash::{BuildHasher, RandomState};
use std::time::Instant;

/// Sixteen hexadecimal digits that no other call gives, in this process or another.
pub(crate) fn unique_hex() -> String {
    format!("{:016x}", RandomState::new().hash_one(Instant::now()))
}
