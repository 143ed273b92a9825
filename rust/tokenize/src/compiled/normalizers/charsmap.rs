//! The `Precompiled` normalizer: `SentencePiece`'s map of characters, as the reference applies it.
//!
//! The reference looks up whole grapheme clusters first. Nearly every character is a cluster by itself, and
//! the map leaves most of them unchanged. Clusters of several characters go through the reference's own code.

use std::ops::Range;

use serde::Deserialize;
use serde_json::Value;
use tokenizers::normalizers::Precompiled;

use crate::loading::catch_panic::contain;
use crate::split::decode;
use crate::unicode::{self, CodePointTable};

/// The map changes the character.
const CHANGES: u8 = 1;

/// The character can share a grapheme cluster with a neighbour.
const JOINS: u8 = 1 << 1;

/// A character map that is ready to be applied.
pub(crate) struct Charsmap {
    map: Precompiled,
    /// The bits [`CHANGES`] and [`JOINS`] of each character.
    table: CodePointTable,
    /// The ASCII characters that have neither bit.
    plain: Box<[bool; 256]>,
    /// True if all ASCII characters that are printed are plain.
    prints: bool,
    /// The replacement of each ASCII character that the map changes.
    ascii: Box<[Option<Box<str>>; 128]>,
}

impl Charsmap {
    /// Reads a `Precompiled` step; the error says why the map is invalid.
    pub(crate) fn new(step: &Value) -> Result<Self, String> {
        let map = Precompiled::deserialize(step).map_err(|error| format!(" ({error})"))?;
        let probed = contain(|| {
            let mut bytes = vec![0; 0x11_0000].into_boxed_slice();
            let joins = unicode::joins();
            for (code_point, value) in (0..).zip(bytes.iter_mut()) {
                if joins.get(code_point) != 0 {
                    *value |= JOINS;
                }
                let mut buffer = [0; 4];
                let Some(c) = char::from_u32(code_point) else { continue };
                let c = &*c.encode_utf8(&mut buffer);
                if map.transform(c).is_some_and(|mapped| mapped != c) {
                    *value |= CHANGES;
                }
            }
            bytes
        });
        let bytes = probed.map_err(|_| " with a damaged map".to_owned())?;
        let mut plain = Box::new([false; 256]);
        for (plain, value) in plain.iter_mut().zip(&bytes[..128]) {
            *plain = *value == 0;
        }
        let prints = plain[usize::from(b' ')..0x7F].iter().all(|plain| *plain);
        let mut ascii = Box::new([const { None }; 128]);
        for (byte, mapped) in (0..).zip(ascii.iter_mut()) {
            let mut buffer = [0; 4];
            *mapped = map.transform(char::from(byte).encode_utf8(&mut buffer)).map(Box::from);
        }
        Ok(Self { map, table: CodePointTable::from_bytes(bytes), plain, prints, ascii })
    }

    /// Tests that the map leaves every ASCII letter, every ASCII digit and the space as it is.
    pub(crate) fn keeps_alphanumerics(&self) -> bool {
        let mut bytes = 0..128_u8;
        bytes.all(|it| self.plain[usize::from(it)] || it != b' ' && !it.is_ascii_alphanumeric())
    }

    /// The table's value for the character at `at`, and the character's length in bytes; zeros at the end.
    #[inline]
    fn at(&self, text: &[u8], at: usize) -> (u8, usize) {
        if at >= text.len() {
            return (0, 0);
        }
        let (code_point, length) = decode(text, at);
        (self.table.get(code_point), length)
    }

    /// The end of the characters from `at` on that are plain ASCII.
    #[inline]
    fn plain_end(&self, text: &[u8], mut at: usize) -> usize {
        let printed = |byte: &u8| (b' '..0x7F).contains(byte);
        while self.prints
            && let Some(chunk) = text.get(at..).and_then(|rest| rest.first_chunk::<16>())
            && chunk.iter().fold(true, |all, byte| all & printed(byte))
        {
            at += chunk.len();
        }
        let other = text[at..].iter().position(|byte| !self.plain[usize::from(*byte)]);
        other.map_or(text.len(), |other| at + other)
    }

    /// The mapped text, or `None` if it stays the same.
    pub(crate) fn apply(&self, text: &str) -> Option<String> {
        let bytes = text.as_bytes();
        let (mut out, mut done, mut at) = (String::new(), 0, 0);
        let mut write_part = |part: Range<usize>, changed_part: &str| {
            if out.is_empty() {
                out.reserve(text.len());
            }
            out.push_str(&text[done..part.start]);
            out.push_str(changed_part);
            done = part.end;
        };
        while at < bytes.len() {
            if self.plain[usize::from(bytes[at])] {
                at = self.plain_end(bytes, at + 1);
                // A mark may follow a plain character.
                if bytes.get(at).is_none_or(u8::is_ascii) {
                    continue;
                }
                at -= 1;
            }
            let (value, length) = self.at(bytes, at);
            let (next, _) = self.at(bytes, at + length);
            let joins = (value | next) & JOINS != 0;
            if !joins && value & CHANGES == 0 {
                at += length;
                continue;
            }
            if !joins && let Some(Some(mapped)) = self.ascii.get(usize::from(bytes[at])) {
                write_part(at..at + 1, mapped);
                at += 1;
                continue;
            }
            let end = if joins { self.cluster_end(bytes, at) } else { at + length };
            let part = &text[at..end];
            match self.map.transform(part).filter(|_| end == at + length) {
                Some(one) if one == part => {}
                Some(one) => write_part(at..end, one),
                None => {
                    let changed_part = self.map.normalize_string(part);
                    if changed_part != part {
                        write_part(at..end, &changed_part);
                    }
                }
            }
            at = end;
        }
        (done > 0).then(|| {
            out.push_str(&text[done..]);
            out
        })
    }

    /// The end of the characters from `at` on that may share a grapheme cluster with the character before.
    fn cluster_end(&self, text: &[u8], mut at: usize) -> usize {
        loop {
            let (value, length) = self.at(text, at);
            at += length;
            let (next, following) = self.at(text, at);
            if following == 0 || (value | next) & JOINS == 0 {
                return at;
            }
        }
    }
}
