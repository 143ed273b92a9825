//! [`BosAndEos`]: the tokens that begin and end documents, once each, from the record, the template or the tokenizer.

use std::ops::Range;
use std::sync::Arc;

use fastpack_tokenize::SequencePart;

use crate::config::{Bos, Eos};

/// The kind of text that a document is made of. It decides the tokens around the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextKind {
    /// A rendered conversation, which carries its special tokens itself.
    Conversation,
    /// Plain text, which gets those that the tokenizer adds and that it has not itself.
    Text,
}

/// The tokens at the beginning and end of documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BosAndEos {
    /// The rule of the token that ends a text.
    pub eos: Eos,
    /// The rule of the token that begins a text.
    pub bos: Bos,
    /// The token that ends a text, if the tokenizer names one.
    pub eos_id: Option<u32>,
    /// The token that begins a text, if the tokenizer names one.
    pub bos_id: Option<u32>,
    /// The text of the token that begins a text.
    pub begin: Option<Arc<str>>,
    /// The text of the token that ends a text.
    pub end: Option<Arc<str>>,
    /// True if the tokenizer puts its tokens around a conversation that does not begin with the beginning-of-text token, as
    /// processors of pictures have it.
    pub frames_conversations: bool,
}

impl BosAndEos {
    /// The token to put in front of ids that do not begin with it.
    pub(super) fn bos_due(&self, first: Option<u32>) -> Option<u32> {
        self.bos_id.filter(|id| self.bos == Bos::Always && first != Some(*id))
    }

    /// The token that documents of this kind end with.
    pub(super) fn eos_of(&self, kind: TextKind) -> Option<u32> {
        match (self.eos, kind) {
            (Eos::Never, _) | (Eos::Auto, TextKind::Conversation) => None,
            (Eos::Always, _) | (Eos::Auto, TextKind::Text) => self.eos_id,
        }
    }

    /// True if a text begins with the beginning-of-text token; `ordinary` are the ranges that are encoded as ordinary text.
    pub(super) fn starts_with_begin(&self, text: &str, ordinary: &[Range<usize>]) -> bool {
        let begun = self.begin.as_ref().is_some_and(|it| !it.is_empty() && text.starts_with(&**it));
        begun && ordinary.first().is_none_or(|first| first.start > 0)
    }

    /// True if the tokenizer puts its tokens around a text of this kind.
    pub(super) fn frames(&self, text: &str, kind: TextKind) -> bool {
        match kind {
            TextKind::Text => true,
            TextKind::Conversation => {
                self.frames_conversations && !self.starts_with_begin(text, &[])
            }
        }
    }

    /// True if a text ends with the end-of-text token, before white space; `ordinary` as above.
    pub(super) fn ends(&self, text: &str, ordinary: &[Range<usize>]) -> bool {
        let text = text.trim_end();
        let ended = self.end.as_ref().is_some_and(|it| !it.is_empty() && text.ends_with(&**it));
        ended && ordinary.last().is_none_or(|last| last.end < text.len())
    }

    /// The number of the part in front of the texts that is left out, if one is: the token that begins a text, where the
    /// first text begins with it or no text is to.
    pub(super) fn left_out_before(&self, frame: &[SequencePart], has_begin: bool) -> Option<usize> {
        let before = frame.iter().position(|part| part.text.is_some()).unwrap_or(frame.len());
        let is_bos = |at: &usize| Some(frame[*at].id) == self.bos_id;
        match (has_begin, self.bos) {
            (true, _) => before.checked_sub(1).filter(is_bos),
            (false, Bos::Never) => (0..before).rfind(is_bos),
            (false, Bos::Auto | Bos::Always) => None,
        }
    }

    /// The number of the part behind the texts that is left out, if one is: the token that ends a text, where the last text
    /// `ends` with it.
    pub(super) fn left_out_after(&self, frame: &[SequencePart], ends: bool) -> Option<usize> {
        let after = frame.iter().rposition(|part| part.text.is_some())? + 1;
        let part = frame.get(after).filter(|_| ends)?;
        (Some(part.id) == self.eos_id).then_some(after)
    }
}
