//! [`SurroundingTokens`]: the tokens that a tokenizer puts around texts.

use fastpack_tokenize::{SequencePart, SpecialTokens, Tokenizer};

use crate::record::Fault;
use crate::report::ledger::Reason;

/// The tokens that a tokenizer puts around one text and around two, asked for where they are first needed.
#[derive(Debug)]
pub(super) struct SurroundingTokens {
    tokenizer: Tokenizer,
    parts: [Option<Vec<SequencePart>>; 2],
}

impl SurroundingTokens {
    pub(super) fn of(tokenizer: &Tokenizer) -> Self {
        Self { tokenizer: tokenizer.clone(), parts: [None, None] }
    }

    /// The parts around this many texts, one or two.
    pub(super) fn parts(&mut self, texts: usize) -> Result<Vec<SequencePart>, Fault> {
        let known = &mut self.parts[texts - 1];
        if let Some(parts) = known {
            return Ok(parts.clone());
        }
        let parts = self
            .tokenizer
            .frame(texts, SpecialTokens::Add)
            .map_err(|error| Fault::new(Reason::Tokenizer, error.to_string()))?;
        Ok(known.insert(parts).clone())
    }
}
