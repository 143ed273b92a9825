//! The ids and contents of the tokens of a [`Tokenizer`], the tokens around texts, its parts and its fingerprint.

use super::engine_choice::{LazyHuggingFace, Tokenizer};
use crate::encoding::SpecialTokens;
use crate::error::{Error, Result};
use crate::hugging_face;
use crate::hugging_face::{HuggingFaceEngine, SequencePart};
use crate::loading::fingerprint;
use crate::loading::without_vocabulary::Outline;

impl Tokenizer {
    /// The engine of a tokenizer that is not compiled, which is built at the start.
    pub(super) fn built(&self) -> &HuggingFaceEngine {
        self.reference.engine.get().expect("only compiled tokenizers build their reference late")
    }

    /// The id of a token given by its exact content, added tokens included.
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        match &self.compiled {
            Ok(compiled) => compiled.1.id(token),
            Err(_) => self.built().token_to_id(token),
        }
    }

    /// The content of a token.
    pub fn id_to_token(&self, id: u32) -> Option<String> {
        match &self.compiled {
            Ok(compiled) => compiled.1.content(id),
            Err(_) => self.built().id_to_token(id),
        }
    }

    /// The text of `ids`, special tokens included, as `decode(ids, skip_special_tokens=False)`.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        match &self.compiled {
            Ok(compiled) => hugging_face::guard(|| compiled.1.decode(ids))
                .map_err(|reason| Error::Encode { reason }),
            Err(_) => self.built().decode(ids),
        }
    }

    /// The parts of the encoding of one text, or of two: where each text stands, and the tokens around them.
    pub fn frame(&self, texts: usize, special: SpecialTokens) -> Result<Vec<SequencePart>> {
        // The post-processor decides alone, and the Hugging Face engine takes long to build.
        match self.reference.post_processor() {
            Some(found) => hugging_face::frame(&found, texts, special),
            None => self.reference.get()?.frame(texts, special),
        }
    }

    /// The components by their names in `tokenizer.json` (`normalizer`, `model`, …), with their types and
    /// options.
    ///
    /// This builds the Hugging Face engine.
    pub fn components(&self) -> Result<Vec<(&'static str, String)>> {
        Ok(self.reference.get()?.components())
    }

    /// The number of tokens, added ones included.
    pub fn vocab_size(&self) -> usize {
        match &self.compiled {
            Ok(compiled) => compiled.1.count(),
            Err(_) => self.built().vocab_size(),
        }
    }

    /// The largest id of a token, added ones included; `None` without tokens.
    pub fn largest_id(&self) -> Option<u32> {
        match &self.compiled {
            Ok(compiled) => compiled.1.largest_id(),
            Err(_) => self.built().largest_id(),
        }
    }

    /// The contents of all special added tokens, longest first. A turn can end at one of them.
    pub fn special_tokens(&self) -> &[String] {
        match &self.compiled {
            Ok(compiled) => compiled.1.special(),
            Err(_) => self.built().special_tokens(),
        }
    }

    /// A digest of everything that decides the ids; equal digests give equal ids.
    pub fn fingerprint(&self) -> &str {
        if self.reference.json.is_empty() {
            return self.built().fingerprint();
        }
        let LazyHuggingFace { json, outline, .. } = &*self.reference;
        let outline = outline.as_ref().map(Outline::value);
        self.reference.fingerprint.get_or_init(|| fingerprint::of_file(json, outline))
    }
}
