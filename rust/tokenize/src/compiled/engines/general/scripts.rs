//! Cuts a text where its script changes, as the reference's `UnicodeScripts` does.

use crate::split::decode;
use crate::unicode;

/// The script number of characters without a script, which stay with the characters before them.
const ANY: u8 = 0;

/// Calls `piece` with each part of `text[from..]` that has one script. The text before the first script is in
/// no part.
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
