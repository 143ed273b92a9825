//! [`write_picture`]: the file of a picture in a record of JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Appends the bytes of a picture's file: an object with their base64.
pub fn write_picture(file: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"bytes\":\"");
    out.extend_from_slice(STANDARD.encode(file).as_bytes());
    out.extend_from_slice(b"\"}");
}
