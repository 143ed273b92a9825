//! [`weigh`]: estimates the tokens of extents by their text, so that lanes of small inputs get alike shares.
//!
//! Tokens follow words more than bytes. 64 lanes of the 27 MB of `chat.jsonl` that are dealt by bytes differ by 5 to
//! 8 % in their tokens, and by 2.5 % if they are dealt by these weights (24 November 2026; `test_stream_positions.py`).

use std::io::{Read, Seek, SeekFrom};

use super::extent::Extent;
use crate::error::{Error, Result};
use crate::source::discovery::found::FoundFiles;
use crate::util::control::Control;

/// The tokens of a word, in [`UNIT`]s.
const WORD: u64 = 18;

/// The tokens of a digit, of a byte of a character outside ASCII, and of any other byte but spaces, in [`UNIT`]s.
const DIGIT: u8 = 15;
const HIGH: u8 = 4;
const OTHER: u8 = 5;

/// The parts of a token that the weights of bytes are given in.
const UNIT: u64 = 16;

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

/// Bytes that are looked at side by side, and the number of times before a sum of their weights may exceed a byte.
const LANES: usize = 32;
const TIMES: usize = u8::MAX as usize / DIGIT as usize;

/// An estimate of the tokens of a text.
fn tokens(text: &[u8]) -> u64 {
    let Some((&first, after)) = text.split_first() else { return 0 };
    let (mut sum, mut words) = (u64::from(weight(first)), u64::from(is_letter(first)));
    for (before, part) in text.chunks(LANES * TIMES).zip(after.chunks(LANES * TIMES)) {
        let (mut weights, mut starts) = ([0; LANES], [0; LANES]);
        let mut add = |at: usize, before: u8, byte: u8| {
            weights[at] += weight(byte);
            starts[at] += u8::from(is_letter(byte) & !is_letter(before));
        };
        let (befores, _) = before.as_chunks::<LANES>();
        let (parts, rest) = part.as_chunks::<LANES>();
        for (before, part) in befores.iter().zip(parts) {
            for at in 0..LANES {
                add(at, before[at], part[at]);
            }
        }
        for (at, &byte) in rest.iter().enumerate() {
            add(at, before[parts.len() * LANES + at], byte);
        }
        let total = |lanes: [u8; LANES]| lanes.iter().map(|&lane| u64::from(lane)).sum::<u64>();
        sum += total(weights);
        words += total(starts);
    }
    (sum + WORD * words) / UNIT
}

fn is_letter(byte: u8) -> bool {
    (byte | 32).wrapping_sub(b'a') < 26
}

/// The weight of a byte: none for letters, which are weighed by words, and for spaces.
fn weight(byte: u8) -> u8 {
    let other = if byte == b' ' || is_letter(byte) { 0 } else { OTHER };
    let low = if byte.wrapping_sub(b'0') < 10 { DIGIT } else { other };
    if byte >= 128 { HIGH } else { low }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_digits_and_signs_tell_the_tokens_of_a_text() {
        assert_eq!(tokens(b""), 0);
        assert_eq!(tokens(&b"a b ".repeat(1_000)), 2_000 * WORD / UNIT);
        assert_eq!(tokens(b"the quick brown fox jumps"), 5);
        assert_eq!(tokens(b"in 2024"), 4);
        assert_eq!(tokens(b"{[(<>)]}"), 2);
        let umlauts = "\u{e4}\u{f6}\u{fc}".repeat(8);
        assert_eq!(tokens(umlauts.as_bytes()), 12);
    }
}
