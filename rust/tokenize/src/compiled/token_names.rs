//! The tokens by their content and by their id, as the file writes them.

use std::fmt;

use tokenizers::{Decoder, DecoderWrapper};

use super::recognition::WrittenModel;
use crate::added::AddedToken;
use crate::hardware::AHEAD;
use crate::pieces::Vocabulary;

/// The value for an id that no token has.
const NOTHING: u32 = u32::MAX;

/// The tokens of a model and the added ones.
pub(crate) struct TokenNames {
    vocabulary: Vocabulary,
    /// The id of each token of `vocabulary`.
    ids: Vec<u32>,
    /// The index of the token with each id, or [`NOTHING`].
    indices: Vec<u32>,
    added: Vec<AddedToken>,
    /// The text of each of `added` when ids are decoded.
    spelled: Vec<String>,
    decoder: Option<DecoderWrapper>,
    special: Vec<String>,
}

impl TokenNames {
    /// Makes the names. `None` if a token occurs twice, if ids are far larger than the number of tokens, or
    /// if the reference would give an added token another id than the file does.
    pub(crate) fn new(
        model: &WrittenModel<'_>,
        added: &[AddedToken],
        decoder: Option<DecoderWrapper>,
    ) -> Option<Self> {
        let entries = &model.vocab.0;
        let mut vocabulary = Vocabulary::with_capacity(entries.len());
        let mut ids = Vec::with_capacity(entries.len());
        let mut indices = vec![NOTHING; entries.len() * 16 + 1];
        for (index, (token, id)) in (0..).zip(entries) {
            if let Some((ahead, _)) = entries.get(index as usize + AHEAD) {
                vocabulary.name(ahead.as_bytes(), 0..ahead.len());
            }
            vocabulary.push(token.as_bytes())?;
            ids.push(*id);
            *indices.get_mut(*id as usize)? = index;
        }
        let mut next = u32::try_from(entries.len()).ok()?;
        for token in added {
            if token.content.is_empty() {
                return None;
            }
            let known = vocabulary.get(token.content.as_bytes());
            let expected = known.map_or(next, |index| ids[index as usize]);
            next += u32::from(known.is_none());
            if expected != token.id {
                return None;
            }
        }
        let mut special: Vec<String> =
            added.iter().filter(|token| token.special).map(|token| token.content.clone()).collect();
        special.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        let spelled = added.iter().map(|token| token.content.clone()).collect();
        Some(Self { vocabulary, ids, indices, added: added.to_vec(), spelled, decoder, special })
    }

    /// The same names; added tokens that match normalized text are decoded to the text that `normalize`
    /// gives.
    pub(crate) fn normalized(mut self, normalize: impl Fn(&str) -> String) -> Self {
        for (token, spelled) in self.added.iter().zip(&mut self.spelled) {
            if token.normalized {
                *spelled = normalize(&token.content);
            }
        }
        self
    }

    /// The id of a token.
    pub(crate) fn id(&self, content: &str) -> Option<u32> {
        match self.added.iter().find(|token| token.content == content) {
            Some(token) => Some(token.id),
            None => self.vocabulary.get(content.as_bytes()).map(|index| self.ids[index as usize]),
        }
    }

    /// The content of an added token, as it is listed.
    pub(crate) fn added(&self, id: u32) -> Option<&str> {
        let token = self.added.iter().find(|token| token.id == id);
        token.map(|token| token.content.as_str())
    }

    /// The content of a token.
    pub(crate) fn content(&self, id: u32) -> Option<String> {
        if let Some(place) = self.added.iter().position(|token| token.id == id) {
            return self.spelled.get(place).cloned();
        }
        let index = self.indices.get(id as usize).filter(|index| **index != NOTHING)?;
        String::from_utf8(self.vocabulary.token(*index).to_vec()).ok()
    }

    /// The text of `ids`.
    pub(crate) fn decode(&self, ids: &[u32]) -> Result<String, String> {
        let tokens: Vec<String> = ids.iter().filter_map(|id| self.content(*id)).collect();
        match &self.decoder {
            Some(decoder) => decoder.decode(tokens).map_err(|error| error.to_string()),
            None => Ok(tokens.join(" ")),
        }
    }

    /// The number of tokens, added ones included.
    pub(crate) fn count(&self) -> usize {
        let is_new = |token: &&AddedToken| self.vocabulary.get(token.content.as_bytes()).is_none();
        self.vocabulary.len() + self.added.iter().filter(is_new).count()
    }

    /// The largest id of a token; `None` without tokens.
    pub(crate) fn largest_id(&self) -> Option<u32> {
        self.ids.iter().copied().chain(self.added.iter().map(|token| token.id)).max()
    }

    /// The contents of all special added tokens, longest first.
    pub(crate) fn special(&self) -> &[String] {
        &self.special
    }
}

impl fmt::Debug for TokenNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names").field("count", &self.count()).finish_non_exhaustive()
    }
}
