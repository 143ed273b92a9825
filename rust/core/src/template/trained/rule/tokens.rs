//! [`SharedTokens`]: how far two texts begin with the same tokens.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fastpack_tokenize::{Encoder, SpecialTokens, Tokenizer};

/// Finds how far two texts begin with the same tokens. All threads share it: it is asked for few turns.
#[derive(Clone)]
pub struct SharedTokens(Arc<LazyEncoder>);

/// An encoder that is made at its first use.
struct LazyEncoder {
    tokenizer: Tokenizer,
    encoder: OnceLock<Mutex<Encoder>>,
}

impl fmt::Debug for SharedTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedTokens").finish_non_exhaustive()
    }
}

impl SharedTokens {
    /// The tokens of `tokenizer`.
    pub fn of(tokenizer: &Tokenizer) -> Self {
        let (tokenizer, encoder) = (tokenizer.clone(), OnceLock::new());
        Self(Arc::new(LazyEncoder { tokenizer, encoder }))
    }

    /// Bytes of `text` in the tokens with which `other` begins too; `None` for texts that cannot be encoded.
    fn shared(&self, other: &str, text: &str) -> Option<usize> {
        let LazyEncoder { tokenizer, encoder } = &*self.0;
        let encoder = encoder.get_or_init(|| Mutex::new(tokenizer.encoder()));
        let mut encoder = encoder.lock().unwrap_or_else(PoisonError::into_inner);
        let mut encode = |text: &str| {
            let (mut ids, mut offsets): (Vec<u32>, Vec<Range<usize>>) = Default::default();
            encoder.encode_with_offsets(text, SpecialTokens::Omit, &mut ids, &mut offsets).ok()?;
            Some((ids, offsets))
        };
        let (ids, offsets) = encode(text)?;
        let (others, _) = encode(other)?;
        let same = ids.iter().zip(&others).take_while(|(left, right)| left == right).count();
        // Offsets count characters.
        let Some(offset) = offsets.get(same) else { return Some(text.len()) };
        Some(text.char_indices().nth(offset.start).map_or(text.len(), |(at, _)| at))
    }
}

/// Bytes of `text` in the tokens with which `other` begins too; in the characters, for texts without known tokens.
pub(in crate::template) fn shared_start(
    tokens: Option<&SharedTokens>,
    other: &str,
    text: &str,
) -> usize {
    if text.starts_with(other) {
        return other.len();
    }
    tokens.and_then(|tokens| tokens.shared(other, text)).unwrap_or_else(|| {
        let same = text.char_indices().zip(other.chars()).find(|((_, a), b)| a != b);
        same.map_or(text.len().min(other.len()), |((at, _), _)| at)
    })
}
