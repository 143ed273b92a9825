//! Documents of several texts: a prompt and its answers, or the texts of a classifier.

use std::sync::Arc;

use fastpack_tokenize::{SequencePart, SpecialTokens};

use super::bos_and_eos::TextKind;
use super::documents::Documents;
use super::ragged_columns::{KINDS, LABELS, PARTS};
use super::tokenize::DocumentMaker;
use crate::config::Eos;
use crate::record::Fault;
use crate::record::TrainedRun;
use crate::report::ledger::{Ledger, NoteSet, Reason};

/// Texts that are tokenized one by one and make one document, with its labels.
#[derive(Clone, Debug, Default)]
pub struct SeveralTexts {
    /// The texts.
    pub texts: Vec<(String, TextKind)>,
    /// The labels of the document as a whole.
    pub labels: Vec<u32>,
    /// The way in which the texts make a document.
    pub whole: TextArrangement,
    /// The notes of the record.
    pub notes: NoteSet,
    /// The text fields of the record that are not read.
    pub unread: Vec<Arc<str>>,
}

impl SeveralTexts {
    /// Bytes of the longest of the texts.
    pub(crate) fn longest(&self) -> usize {
        self.texts.iter().map(|(text, _)| text.len()).max().unwrap_or(0)
    }
}

/// The way in which several texts make a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextArrangement {
    /// They are a prompt, and texts that begin with it.
    #[default]
    Answers,
    /// They are one text or two, between the tokens that the tokenizer puts around them.
    Framed,
}

/// The kind of the tokens in a part of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartKind {
    /// The number of their text among those of the document; `None` if they are put around texts.
    pub text: Option<u32>,
    /// The number of the text of a pair that they count to.
    pub token_type: u32,
}

/// The bits of the number of a [`PartKind`] that tell its text.
const TEXT: u32 = 3;

impl From<u32> for PartKind {
    fn from(number: u32) -> Self {
        Self { text: (number & TEXT).checked_sub(1), token_type: number / (TEXT + 1) }
    }
}

impl From<PartKind> for u32 {
    fn from(kind: PartKind) -> Self {
        kind.token_type * (TEXT + 1) + kind.text.map_or(0, |text| text + 1)
    }
}

/// A part of a document: its ids, and their kind.
struct IdsPart {
    ids: Vec<u32>,
    kind: PartKind,
}

impl DocumentMaker {
    /// Tokenizes several texts, and appends a document of them.
    pub fn make_several(
        &mut self,
        several: &SeveralTexts,
        line: u64,
        documents: &mut Documents,
        ledger: &mut Ledger,
    ) -> Result<(), Fault> {
        let parts = match several.whole {
            TextArrangement::Answers => self.answers(&several.texts)?,
            TextArrangement::Framed => self.framed(&several.texts)?,
        };
        let ids: Vec<u32> = parts.iter().flat_map(|part| &part.ids).copied().collect();
        let all = length(ids.len())?;
        let mut texts = parts.iter().filter(|part| part.kind.text.is_some());
        if texts.all(|part| part.ids.is_empty()) {
            return Err(Fault::new(Reason::Empty, "the texts have no token"));
        }
        ledger.read.add(u64::from(all));
        let lengths: Vec<u32> =
            parts.iter().map(|part| length(part.ids.len())).collect::<Result<_, _>>()?;
        let kinds: Vec<u32> = parts.iter().map(|part| part.kind.into()).collect();
        let columns: Vec<&[u32]> = documents
            .names()
            .into_iter()
            .map(|name| match name {
                PARTS => &lengths[..],
                KINDS => &kinds[..],
                LABELS => &several.labels[..],
                _ => &ids[..],
            })
            .collect();
        documents.push(&columns, [TrainedRun { start: 0, end: all, weight: 1.0 }], line);
        Ok(())
    }

    /// The ids of a prompt, and of the rest of each of the texts that begin with it.
    ///
    /// The prompt ends where its ids differ from those of a text, as in the trainers of TRL: a tokenizer may merge its end
    /// with an answer.
    fn answers(&mut self, texts: &[(String, TextKind)]) -> Result<Vec<IdsPart>, Fault> {
        let mut encoded = Vec::with_capacity(texts.len());
        for (at, (text, kind)) in texts.iter().enumerate() {
            encoded.push(self.encode_whole(text, *kind, at > 0)?);
        }
        let [prompt, wholes @ ..] = &encoded[..] else { return Ok(Vec::new()) };
        let shared = |whole: &Vec<u32>| {
            prompt.iter().zip(whole).take_while(|(one, other)| one == other).count()
        };
        let end = wholes.iter().map(shared).min().unwrap_or(prompt.len());
        let kind = PartKind { text: Some(0), token_type: 0 };
        let parts = [&prompt[..end]].into_iter().chain(wholes.iter().map(|whole| &whole[end..]));
        Ok(parts.map(|ids| IdsPart { ids: ids.to_vec(), kind }).collect())
    }

    /// The ids of one text or of two, between the tokens that the tokenizer puts around them.
    fn framed(&mut self, texts: &[(String, TextKind)]) -> Result<Vec<IdsPart>, Fault> {
        let mut frame = self.frames.parts(texts.len())?;
        if let Some(before) = self.bos_and_eos.left_out_before(&frame, false) {
            frame.remove(before);
        }
        let first = frame.first().map(|part| part.id);
        if let Some(id) = self.bos_and_eos.bos_due(first) {
            frame.insert(0, SequencePart { text: None, id, kind: 0 });
        }
        let part = |part: SequencePart| {
            let text = part.text.map(|text| u32::from(text > 0));
            let ids = match part.text {
                Some(text) => self.encode_text(&texts[text].0, SpecialTokens::Omit)?.to_vec(),
                None => vec![part.id],
            };
            Ok(IdsPart { ids, kind: PartKind { text, token_type: part.kind } })
        };
        frame.into_iter().map(part).collect()
    }

    /// True if `reference` encodes texts in the same way.
    ///
    /// To be asked of texts of at most [`LONGEST_COMPARED`](fastpack_tokenize::LONGEST_COMPARED) bytes.
    pub fn agree(&mut self, texts: &[(String, TextKind)], reference: &mut Self) -> bool {
        texts.iter().all(|(text, kind)| {
            let ids = self.encode_whole(text, *kind, false);
            ids.is_ok() && ids == reference.encode_whole(text, *kind, false)
        })
    }

    /// The ids of a text, with those that begin and end it where the options want them.
    fn encode_whole(&mut self, text: &str, kind: TextKind, ends: bool) -> Result<Vec<u32>, Fault> {
        let special = match kind {
            TextKind::Text => SpecialTokens::Add,
            TextKind::Conversation => SpecialTokens::Omit,
        };
        self.encode_text(text, special)?;
        if kind == TextKind::Text {
            self.leave_out_doubled(text, &[])?;
        }
        let due = self.eos_due(text, &[], kind);
        let mut ids = self.encoding.ids.clone();
        if let Some(bos) = ids.first().and_then(|first| self.bos_and_eos.bos_due(Some(*first))) {
            ids.insert(0, bos);
        }
        ids.extend(due.filter(|_| ends && self.bos_and_eos.eos == Eos::Always));
        Ok(ids)
    }
}

/// A number of tokens, if a row can hold them.
fn length(tokens: usize) -> Result<u32, Fault> {
    u32::try_from(tokens).ok().filter(|tokens| i32::try_from(*tokens).is_ok()).ok_or_else(|| {
        let message = format!("the document has {tokens} tokens, more than a row can hold");
        Fault::new(Reason::Tokenizer, message)
    })
}
