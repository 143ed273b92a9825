//! [`Encoder`]: encodes texts on one thread, within the longest texts that an engine takes.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::engine_choice::Tokenizer;
use crate::cancel_flag::CancelFlag;
use crate::compiled::{Blanks, Caches, OffsetBuffers, StableSegment, ThreadMemory};
use crate::encoding::{Encoding, SpecialTokens};
use crate::error::{Error, Result};

/// Bytes of the longest text for the compiled engines, as many as a line of a file may have. Positions are 32
/// bits.
const LONGEST_TEXT: usize = 1 << 30;

/// Bytes of the longest text if normalizing can make it longer: NFKC writes 33 bytes for the 3 of U+FDFA.
const LONGEST_EXPANDED: usize = 1 << 28;

/// Bytes of a text after which an encoder frees its buffers: they are several times as large, and most texts
/// need little.
const LARGE: usize = 1 << 24;

impl Tokenizer {
    /// A tokenizer whose encoders have caches of at most so many bytes. All but an eighth of them are shared
    /// with the other encoders. The default is 64 MiB.
    #[must_use]
    pub fn with_cache_bytes(self, bytes: usize) -> Self {
        Self { caches: Caches::new(bytes), ..self }
    }

    /// A new encoder for one thread.
    pub fn encoder(&self) -> Encoder {
        let compiled = self.compiled.as_ref().ok();
        let memory = compiled.map(|_| ThreadMemory::new(&self.caches));
        let expands = self.compiled.as_ref().is_ok_and(|compiled| compiled.0.expands());
        let longest = if expands { LONGEST_EXPANDED } else { LONGEST_TEXT };
        Encoder { tokenizer: self.clone(), memory, longest, blanks: Blanks::default() }
    }
}

/// The encoder of one thread: the shared tokenizer, and the memory that the engine writes to.
#[derive(Debug)]
pub struct Encoder {
    tokenizer: Tokenizer,
    pub(super) memory: Option<ThreadMemory>,
    /// Bytes of the longest text that the compiled engine takes.
    pub(super) longest: usize,
    blanks: Blanks,
}

impl Encoder {
    /// Appends the ids of `text` to `out.ids`, and one entry a span to `out.touched`.
    ///
    /// `spans` are byte ranges of `text`, ascending and disjoint. For each, `out.touched` gets the range of
    /// positions in `out.ids` whose source range overlaps it; a token that straddles two spans is in both.
    /// Tokens that the post-processor adds come from no text, so no span touches them. With no spans, no
    /// offsets are computed.
    pub fn encode(
        &mut self,
        text: &str,
        spans: &[Range<usize>],
        special: SpecialTokens,
        out: &mut Encoding,
    ) -> Result<()> {
        self.encode_around(text, std::iter::empty(), spans, special, out)
    }

    /// Appends the ids of `text` to `ids`, and the range of characters that each comes from to `offsets`, as the
    /// Hugging Face crate gives them.
    ///
    /// That crate itself encodes the text if the tokenizer is not compiled, and where a token comes from no
    /// character.
    pub fn encode_with_offsets(
        &mut self,
        text: &str,
        special: SpecialTokens,
        ids: &mut Vec<u32>,
        offsets: &mut Vec<Range<usize>>,
    ) -> Result<()> {
        let before = ids.len();
        if let (Ok(compiled), Some(memory)) = (&self.tokenizer.compiled, &mut self.memory)
            && text.len() <= self.longest
        {
            let (model, names) = compiled.as_ref();
            let buffers = OffsetBuffers { memory, blanks: &mut self.blanks };
            if model.encode_with_offsets(text, special, names, buffers, ids, offsets) {
                let Some(refused) = memory.refusal() else { return Ok(()) };
                offsets.truncate(offsets.len() + before - ids.len());
                ids.truncate(before);
                return Err(refused);
            }
            if let Some(refused) = memory.refusal() {
                return Err(refused);
            }
        }
        self.tokenizer.reference.get()?.encode_with_offsets(text, special, ids, offsets)
    }

    /// Appends the ids of `text` as ordinary text, in which no special token is found: as the Hugging Face crate gives
    /// them with `encode_special_tokens`.
    pub fn encode_ordinary(&self, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        self.tokenizer.reference.get()?.encode_ordinary(text, ids)
    }

    /// The id of a token.
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.tokenizer.token_to_id(token)
    }

    /// Makes [`encode`](Self::encode) fail with [`Error::Stopped`] soon after `flag` is set: a text may be a
    /// GiB.
    #[must_use]
    pub fn stopped_by(mut self, flag: Arc<AtomicBool>) -> Self {
        if let Some(memory) = &mut self.memory {
            memory.stop(CancelFlag::when(flag));
        }
        self
    }

    /// The last byte of `text` at which texts that begin with `text` can be cut in two, such that their ids are those of
    /// both parts: the start of an added token. 0 if there is none.
    pub fn last_cut(&self, text: &str) -> usize {
        self.tokenizer.compiled.as_ref().map_or(0, |compiled| compiled.0.last_added(text))
    }

    /// The part of `text`, from one added token to another, whose ids are the same in every text that
    /// contains `text`; `None` if there is none.
    pub fn stable_segment(&mut self, text: &str) -> Option<StableSegment> {
        match (&self.tokenizer.compiled, &mut self.memory) {
            (Ok(compiled), Some(memory)) if text.len() <= self.longest => {
                compiled.0.stable_segment(text, memory)
            }
            _ => None,
        }
    }

    /// Encodes as [`encode`](Self::encode) does, and copies the ids of known parts. `settled` gives these
    /// parts, ascending, each with the position in `text` of the text that it was [made of](Self::stable_segment).
    ///
    /// A part that is not at its position is encoded like any other text.
    pub fn encode_around<'s>(
        &mut self,
        text: &str,
        settled: impl Iterator<Item = (usize, &'s StableSegment)> + Clone,
        spans: &[Range<usize>],
        special: SpecialTokens,
        out: &mut Encoding,
    ) -> Result<()> {
        let (Ok(compiled), Some(memory)) = (&self.tokenizer.compiled, &mut self.memory) else {
            return self.tokenizer.built().encode(text, spans, special, out);
        };
        if text.len() > self.longest {
            return Err(Error::too_long("it", text.len(), self.longest));
        }
        let before = (out.ids.len(), out.touched.len());
        compiled.0.encode(text, settled, spans, special, memory, out);
        if text.len() > LARGE {
            memory.shrink();
        }
        let Some(refused) = memory.refusal() else { return Ok(()) };
        out.ids.truncate(before.0);
        out.touched.truncate(before.1);
        Err(refused)
    }
}
