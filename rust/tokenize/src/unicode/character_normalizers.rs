//! Normalizers that rewrite each character by itself, with the results of the linked crate.

use std::collections::HashMap;
use std::sync::LazyLock;

use tokenizers::normalizers::{Nmt, StripAccents};
use tokenizers::{NormalizedString, Normalizer};

use super::code_point_table::{CODE_POINTS, CodePointTable};

/// The number of characters in one text for the crate.
const CHARACTERS_PER_TEXT: usize = 1 << 14;

/// The separator of the characters in that text; neither normalizer makes it or removes it.
const BETWEEN: char = 'a';

/// The normalized form of each character.
pub(crate) struct NormalizedForms {
    /// 1 for each code point that changes.
    table: CodePointTable,
    /// The normalized forms of these code points.
    become_text: HashMap<char, Box<str>>,
}

impl NormalizedForms {
    fn new(normalizer: &impl Normalizer) -> Self {
        let mut bytes = vec![0; CODE_POINTS].into_boxed_slice();
        let mut become_text = HashMap::new();
        let scalars: Vec<char> = (0..=0x10_FFFF).filter_map(char::from_u32).collect();
        for together in scalars.chunks(CHARACTERS_PER_TEXT) {
            let characters: Vec<char> =
                together.iter().copied().filter(|c| *c != BETWEEN).collect();
            let text: String = characters.iter().flat_map(|c| [*c, BETWEEN]).collect();
            let mut text = NormalizedString::from(text);
            normalizer.normalize(&mut text).expect("rewriting characters has no way to fail");
            for (c, becomes) in characters.iter().zip(text.get().split(BETWEEN)) {
                let mut buffer = [0; 4];
                if becomes != c.encode_utf8(&mut buffer) {
                    bytes[*c as usize] = 1;
                    become_text.insert(*c, becomes.into());
                }
            }
        }
        Self { table: CodePointTable::from_bytes(bytes), become_text }
    }

    /// The normalized form of a text, or `None` if it stays the same.
    pub(crate) fn apply(&self, text: &str) -> Option<String> {
        let changes = |c: char| self.table.get(u32::from(c)) != 0;
        let (first, _) = text.char_indices().find(|(_, c)| changes(*c))?;
        let mut out = String::with_capacity(text.len());
        out.push_str(&text[..first]);
        for c in text[first..].chars() {
            match self.become_text.get(&c).filter(|_| changes(c)) {
                Some(becomes) => out.push_str(becomes),
                None => out.push(c),
            }
        }
        Some(out)
    }
}

/// `StripAccents`.
pub(crate) fn accents() -> &'static NormalizedForms {
    static CHANGES: LazyLock<NormalizedForms> =
        LazyLock::new(|| NormalizedForms::new(&StripAccents));
    &CHANGES
}

/// `Nmt`.
pub(crate) fn nmt() -> &'static NormalizedForms {
    static CHANGES: LazyLock<NormalizedForms> = LazyLock::new(|| NormalizedForms::new(&Nmt));
    &CHANGES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_character_becomes_what_the_crate_makes_of_it() {
        let text = "a\u{301}\tb\u{200b}é\n\u{7f}中\u{94d}";
        assert_eq!(accents().apply(text).as_deref(), Some("a\tb\u{200b}é\n\u{7f}中"));
        assert_eq!(nmt().apply(text).as_deref(), Some("a\u{301} b é 中\u{94d}"));
        assert_eq!(nmt().apply("plain"), None);
    }
}
