//! [`weigh`]: estimates the tokens of extents by their text, so that lanes of small inputs get alike shares.
//!
//! Tokens follow words more than bytes. 64 lanes of the 27 MB of `chat.jsonl` that are dealt by bytes differ by 5 to
//! 8 % in their tokens, and by 2.5 % if they are dealt by these weights (24 November 2026; `test_stream_positions.py`).

use std::io::{Read, Seek, SeekFrom};

use super::found::FoundFiles;
use super::position::Extent;
use crate::control::Control;
use crate::error::{Error, Result};

/// The tokens of a word, in [`UNIT`]s.
const WORD: u64 = 18;

/// The tokens of a digit, of a byte of a character outside ASCII, and of any other byte but spaces, in [`UNIT`]s.
const DIGIT: u8 = 15;
const HIGH: u8 = 4;
const OTHER: u8 = 5;

/// The parts of a token that the weights of bytes are given in.
const UNIT: u64 = 16;

/// The weight of each byte that is no letter.
const BYTES: [u8; 256] = weights();

const fn weights() -> [u8; 256] {
    let mut all = [OTHER; 256];
    let mut byte = 0_u8;
    loop {
        let weight = if byte >= 128 {
            HIGH
        } else if byte.is_ascii_digit() {
            DIGIT
        } else if byte == b' ' || byte.is_ascii_alphabetic() {
            0
        } else {
            OTHER
        };
        all[byte as usize] = weight;
        if byte == u8::MAX {
            return all;
        }
        byte += 1;
    }
}

/// Sets the weights of extents of line files, which come in the order of their files. Together they weigh as much as
/// their bytes, so that other extents, which weigh their bytes, stay comparable.
pub(crate) fn weigh(found: &FoundFiles, extents: &mut [Extent], control: &Control) -> Result<()> {
    let mut bytes = Vec::new();
    let (mut all_bytes, mut all_tokens) = (0_u128, 0_u128);
    for of_file in extents.chunk_by_mut(|a, b| a.file == b.file) {
        if of_file[0].lines().is_none() {
            continue;
        }
        let file = &found.files[of_file[0].file];
        let mut opened = file.location.open().map_err(Error::io(&*file.path))?;
        for extent in of_file {
            control.tick()?;
            let Some(range) = extent.lines().cloned() else { continue };
            bytes.clear();
            let mut read = || {
                opened.seek(SeekFrom::Start(range.start))?;
                opened.by_ref().take(range.end - range.start).read_to_end(&mut bytes)
            };
            read().map_err(Error::io(&*file.path))?;
            extent.weight = tokens(&bytes);
            all_bytes += u128::from(extent.bytes);
            all_tokens += u128::from(extent.weight);
        }
    }
    for extent in extents.iter_mut().filter(|extent| extent.lines().is_some()) {
        let weight = u128::from(extent.weight) * all_bytes / all_tokens.max(1);
        extent.weight = u64::try_from(weight).unwrap_or(u64::MAX);
    }
    Ok(())
}

/// An estimate of the tokens of a text.
fn tokens(text: &[u8]) -> u64 {
    let (mut sum, mut words, mut in_word) = (0, 0, false);
    for byte in text {
        let is_letter = byte.is_ascii_alphabetic();
        words += u64::from(is_letter && !in_word);
        in_word = is_letter;
        sum += u64::from(BYTES[usize::from(*byte)]);
    }
    (sum + WORD * words) / UNIT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_digits_and_signs_tell_the_tokens_of_a_text() {
        assert_eq!(tokens(b""), 0);
        assert_eq!(tokens(b"the quick brown fox jumps"), 5);
        assert_eq!(tokens(b"in 2024"), 4);
        assert_eq!(tokens(b"{[(<>)]}"), 2);
        let umlauts = "\u{e4}\u{f6}\u{fc}".repeat(8);
        assert_eq!(tokens(umlauts.as_bytes()), 12);
    }
}
