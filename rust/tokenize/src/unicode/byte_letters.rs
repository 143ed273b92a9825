//! The characters that stand for bytes in byte-level vocabularies, as GPT-2 chose them.

use std::sync::LazyLock;

/// The byte that each character of the byte-level alphabet stands for.
pub(crate) fn byte_alphabet() -> [Option<u8>; 512] {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..);
    let mut alphabet = [None; 512];
    let mut next = 256;
    for byte in 0..=255_u8 {
        if printable(byte) {
            alphabet[usize::from(byte)] = Some(byte);
        } else {
            alphabet[next] = Some(byte);
            next += 1;
        }
    }
    alphabet
}

/// The character of the byte-level alphabet for each byte.
pub(crate) fn byte_letters() -> &'static [String; 256] {
    static LETTERS: LazyLock<[String; 256]> = LazyLock::new(|| {
        let mut letters = [const { String::new() }; 256];
        for (code, byte) in (0..).zip(byte_alphabet()) {
            if let Some((byte, letter)) = byte.zip(char::from_u32(code)) {
                letters[usize::from(byte)] = letter.to_string();
            }
        }
        letters
    });
    &LETTERS
}
