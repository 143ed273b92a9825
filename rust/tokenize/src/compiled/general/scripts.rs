//! Where the script of a text changes, as the reference's `UnicodeScripts` has it.

use crate::split::decode;
use crate::unicode;

/// The number of the characters of no script, which go with those before them.
const ANY: u8 = 0;

/// Calls `piece` with each part of `text[from..]` of one script. The text before the first script is in none of them.
pub(super) fn split(text: &[u8], from: usize, mut piece: impl FnMut(usize, usize)) {
    let (mut at, mut last, mut start) = (from, ANY, None);
    while at < text.len() {
        let (code_point, length) = decode(text, at);
        let script = unicode::scripts().get(code_point);
        if script != ANY {
            if script != last {
                if let Some(start) = start {
                    piece(start, at);
                }
                start = Some(at);
            }
            last = script;
        }
        at += length;
    }
    if let Some(start) = start {
        piece(start, text.len());
    }
}
