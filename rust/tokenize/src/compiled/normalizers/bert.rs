//! BERT's normalizer: removes control characters, puts spaces around ideographs, strips accents and
//! lower-cases.
//!
//! Nearly every character is rewritten by itself. If decomposing a character leaves marks that can be
//! reordered with their neighbours, the surrounding stretch without ASCII goes through the reference's own
//! normalizer.

use serde_json::Value;
use tokenizers::normalizers::BertNormalizer;

use super::normalized::Normalized;
use crate::split::decode;
use crate::unicode::bert::{CONTROL, IDEOGRAPH, MOVES, PUNCTUATION, STRIPS, VALUES, WHITESPACE};
use crate::unicode::{bert_bits, stripped};

/// The normalizer's four steps, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the file's own flags")]
pub(crate) struct Bert {
    /// True if control characters are removed and whitespace becomes spaces.
    pub(crate) clean: bool,
    /// True if spaces are put around ideographs.
    pub(crate) ideographs: bool,
    /// True if characters are decomposed and lose their accents.
    pub(crate) strip: bool,
    /// True if upper case becomes lower case.
    pub(crate) lowercase: bool,
}

/// The role of a character when text is cut into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Role {
    /// Part of a word, or a character whose role shows only after normalizing.
    Word,
    /// A separator between words.
    Space,
    /// A word of its own.
    Alone,
}

impl Bert {
    /// The role of a character by its bits.
    ///
    /// A cut next to a character of any role but [`Role::Word`] changes no id: decomposing does not move such
    /// a character, and does not make several words or none of it.
    pub(crate) fn role(self, bits: u8) -> Role {
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
    pub(crate) fn roles(self) -> [Role; VALUES] {
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

    /// Appends the normalized form of `text`, which begins at `offset` in the original.
    pub(crate) fn normalize(self, text: &str, offset: usize, sources: bool, out: &mut Normalized) {
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
            // A deleted character does not separate marks.
            let run = bytes[at..].iter().position(|byte| byte.is_ascii() && self.keeps(*byte));
            let end = run.map_or(bytes.len(), |run| at + run);
            self.wide(&text[at..end], offset + at, sources, out);
            at = end;
        }
    }

    /// The normalized form of an ASCII character; `None` if it is removed.
    fn ascii(self, byte: u8) -> Option<u8> {
        let byte = match byte {
            b'\t' | b'\n' | b'\r' if self.clean => b' ',
            0..b' ' | 0x7F if self.clean => return None,
            byte => byte,
        };
        Some(if self.lowercase { byte.to_ascii_lowercase() } else { byte })
    }

    /// True if normalizing keeps an ASCII character.
    pub(crate) fn keeps(self, byte: u8) -> bool {
        self.ascii(byte).is_some()
    }

    /// As [`Self::normalize`], for a stretch that has a kept ASCII character or a text end on both sides: no
    /// mark moves across these.
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

    /// Appends the normalized form of one character.
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

/// BERT's normalizer, if it has its five fields and no other.
pub(in crate::compiled) fn bert(normalizer: &Value) -> Option<Bert> {
    let fields = normalizer.as_object()?;
    let flag = |name: &str| fields.get(name)?.as_bool();
    if fields.len() != 5 || fields.get("type")? != "BertNormalizer" {
        return None;
    }
    let lowercase = flag("lowercase")?;
    let strip = match fields.get("strip_accents")? {
        Value::Null => lowercase,
        strip => strip.as_bool()?,
    };
    let (clean, ideographs) = (flag("clean_text")?, flag("handle_chinese_chars")?);
    Some(Bert { clean, ideographs, strip, lowercase })
}
