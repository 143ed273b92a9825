//! [`SharedTokens`]: how far two texts begin with the same tokens.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use fastpack_tokenize::{Encoder, SpecialTokens, Tokenizer};

/// Finds how far two texts begin with the same tokens. All threads share it.
#[derive(Clone)]
pub struct SharedTokens(Arc<EncoderPool>);

/// Encoders of a tokenizer that no thread uses at the moment.
struct EncoderPool {
    tokenizer: Tokenizer,
    free: Mutex<Vec<Encoder>>,
}

impl fmt::Debug for SharedTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedTokens").finish_non_exhaustive()
    }
}

impl EncoderPool {
    /// Takes an encoder, which comes back by [`give_back`](Self::give_back).
    fn take(&self) -> Encoder {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.unwrap_or_else(|| self.tokenizer.encoder())
    }

    fn give_back(&self, encoder: Encoder) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(encoder);
    }
}

impl SharedTokens {
    /// The tokens of `tokenizer`.
    pub fn of(tokenizer: &Tokenizer) -> Self {
        let (tokenizer, free) = (tokenizer.clone(), Mutex::default());
        Self(Arc::new(EncoderPool { tokenizer, free }))
    }

    /// Bytes of `text` in the tokens with which `other` begins too; `None` for texts that cannot be encoded.
    fn shared(&self, other: &str, text: &str) -> Option<usize> {
        let mut encoder = self.0.take();
        // Ids before an added token that both texts have are the same, and do not depend on the text behind them.
        let begin = encoder.last_cut(&text[..shared_characters(other, text)]);
        let (text, other) = (&text[begin..], &other[begin..]);
        let mut encode = |text: &str| {
            let (mut ids, mut offsets): (Vec<u32>, Vec<Range<usize>>) = Default::default();
            encoder.encode_with_offsets(text, SpecialTokens::Omit, &mut ids, &mut offsets).ok()?;
            Some((ids, offsets))
        };
        let both = encode(text).and_then(|own| Some((own, encode(other)?)));
        self.0.give_back(encoder);
        let ((ids, offsets), (others, _)) = both?;
        let same = ids.iter().zip(&others).take_while(|(left, right)| left == right).count();
        // Offsets count characters.
        let end = offsets.get(same).and_then(|offset| text.char_indices().nth(offset.start));
        Some(begin + end.map_or(text.len(), |(at, _)| at))
    }
}

/// Bytes of the characters with which both texts begin.
fn shared_characters(other: &str, text: &str) -> usize {
    let bytes = text.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    (0..=bytes).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
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
    let tokens = tokens.and_then(|tokens| tokens.shared(other, text));
    tokens.unwrap_or_else(|| shared_characters(other, text))
}
