//! Looks up the ids of a piece of text: in the vocabulary, and in caches.

mod cache;
mod key;
mod long;
mod mapped_memory;
mod piece_lines;
mod piece_table;
mod prefixes;
mod vocabulary;
mod whole_tokens;

pub(crate) use cache::{PieceCache, SharedCache};
pub(crate) use key::{LONGEST, PieceKey};
pub(crate) use long::LongCache;
pub(crate) use piece_table::MOST;
pub(crate) use prefixes::{Prefixes, ROOT};
pub(crate) use vocabulary::{TokenName, Vocabulary};
pub(crate) use whole_tokens::{WholeToken, WholeTokens};

/// Multipliers of the hash, odd and with well-mixed bits.
const MIX: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xD6E8_FEB8_6659_FD93];

/// Mixes two words into one, by combining the two halves of their product.
#[inline]
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left ^ MIX[0]) * u128::from(right ^ MIX[1]);
    #[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
    let folded = product as u64 ^ (product >> 64) as u64;
    folded
}

/// A hash of any number of bytes.
#[inline]
fn hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks();
    let state =
        words.iter().fold(bytes.len() as u64, |state, word| fold(state, u64::from_le_bytes(*word)));
    fold(state, rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
}
