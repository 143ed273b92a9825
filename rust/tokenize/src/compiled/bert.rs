//! BERT's normalizer: control characters go, ideographs stand alone, accents and capitals are taken away.
//!
//! Nearly every character is rewritten by itself. Only where something is left that decomposing can move past its
//! neighbours, the stretch without ASCII around it goes through the reference's own normalizer.

use tokenizers::normalizers::BertNormalizer;

use super::normalize::Normalized;
use crate::split::decode;
use crate::unicode::bert::{CONTROL, IDEOGRAPH, MOVES, PUNCTUATION, STRIPS, VALUES, WHITESPACE};
use crate::unicode::{bert_bits, stripped};

/// The normalizer's four steps, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the file's own flags")]
pub(crate) struct Bert {
    /// Control characters go, and whitespace becomes spaces.
    pub(super) clean: bool,
    /// Spaces are put around ideographs.
    pub(super) ideographs: bool,
    /// Characters are decomposed and lose their accents.
    pub(super) strip: bool,
    /// Capitals become small.
    pub(super) lowercase: bool,
}

/// What a character of the text is to the cutting into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Role {
    /// Part of a word, or of something that has to be normalized to know.
    Word,
    /// Stands between words.
    Space,
    /// A word of its own.
    Alone,
}

impl Bert {
    /// The role of a character by its bits: a cut beside anything but [`Role::Word`] changes no id.
    ///
    /// What is cut off can neither be moved by decomposing nor become several words or none.
    pub(super) fn role(self, bits: u8) -> Role {
        let has = |bit: u8| bits & bit != 0;
        let changes = self.strip && has(STRIPS | MOVES);
        if self.clean && has(CONTROL) {
            Role::Word
        } else if has(WHITESPACE) {
            if self.clean || !changes { Role::Space } else { Role::Word }
        } else if self.ideographs && has(IDEOGRAPH) {
            if self.strip && has(MOVES) { Role::Word } else { Role::Alone }
        } else if has(PUNCTUATION) && !changes {
            Role::Alone
        } else {
            Role::Word
        }
    }

    /// The roles of all combinations of bits.
    pub(super) fn roles(self) -> [Role; VALUES] {
        let mut roles = [Role::Word; VALUES];
        for (bits, role) in (0..).zip(&mut roles) {
            *role = self.role(bits);
        }
        roles
    }

    /// The reference's normalizer.
    fn reference(self) -> BertNormalizer {
        BertNormalizer::new(self.clean, self.ideographs, Some(self.strip), self.lowercase)
    }

    /// Appends the normalized form of `text`, which stands at `offset` in the original.
    pub(super) fn normalize(self, text: &str, offset: usize, sources: bool, out: &mut Normalized) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            if byte.is_ascii() {
                if let Some(byte) = self.ascii(*byte) {
                    out.text.push(char::from(byte));
                    if sources {
                        out.sources.push(offset + at..offset + at + 1);
                    }
                }
                at += 1;
                continue;
            }
            // What is deleted keeps no marks apart.
            let run = bytes[at..].iter().position(|byte| byte.is_ascii() && self.keeps(*byte));
            let end = run.map_or(bytes.len(), |run| at + run);
            self.wide(&text[at..end], offset + at, sources, out);
            at = end;
        }
    }

    /// What becomes of an ASCII character.
    fn ascii(self, byte: u8) -> Option<u8> {
        let byte = match byte {
            b'\t' | b'\n' | b'\r' if self.clean => b' ',
            0..b' ' | 0x7F if self.clean => return None,
            byte => byte,
        };
        Some(if self.lowercase { byte.to_ascii_lowercase() } else { byte })
    }

    /// Whether an ASCII character is still there when it is normalized.
    pub(super) fn keeps(self, byte: u8) -> bool {
        self.ascii(byte).is_some()
    }

    /// As [`Self::normalize`], for a stretch with ASCII that stays or nothing on both sides: no mark moves over that.
    fn wide(self, text: &str, offset: usize, sources: bool, out: &mut Normalized) {
        let table = bert_bits();
        let (start, known) = (out.text.len(), out.sources.len());
        let mut at = 0;
        while at < text.len() {
            let (code_point, length) = decode(text.as_bytes(), at);
            let bits = table.get(code_point);
            if self.strip && bits & MOVES != 0 {
                out.text.truncate(start);
                out.sources.truncate(known);
                out.ask(&self.reference(), text, offset, sources);
                return;
            }
            let before = out.text.len();
            self.rewrite(&text[at..at + length], code_point, bits, &mut out.text);
            if sources {
                let source = offset + at..offset + at + length;
                out.sources.extend(std::iter::repeat_n(source, out.text.len() - before));
            }
            at += length;
        }
    }

    /// Appends what becomes of one character.
    fn rewrite(self, character: &str, code_point: u32, bits: u8, out: &mut String) {
        if self.clean && bits & (CONTROL | WHITESPACE) != 0 {
            if bits & CONTROL == 0 {
                out.push(' ');
            }
            return;
        }
        let alone = self.ideographs && bits & IDEOGRAPH != 0;
        if alone {
            out.push(' ');
        }
        let left = if self.strip && bits & STRIPS != 0 { stripped(code_point) } else { character };
        if self.lowercase {
            out.extend(left.chars().flat_map(char::to_lowercase));
        } else {
            out.push_str(left);
        }
        if alone {
            out.push(' ');
        }
    }
}
