//! Documents of several texts: a prompt and its answers.

use fastpack_tokenize::SpecialTokens;

use super::tokenize::{DocumentMaker, TextKind};
use super::{Documents, LABELS, PARTS, TrainedRun};
use crate::config::Eos;
use crate::ledger::{Ledger, Reason};
use crate::record::Fault;

impl DocumentMaker {
    /// Tokenizes a prompt and the texts that begin with it, and appends a document: the ids of the prompt, and of the rest
    /// of each text.
    ///
    /// The prompt ends where its ids differ from those of a text, as in the trainers of TRL: a tokenizer may merge its end
    /// with an answer.
    pub fn make_several(
        &mut self,
        texts: &[(String, TextKind)],
        label: Option<bool>,
        line: u64,
        documents: &mut Documents,
        ledger: &mut Ledger,
    ) -> Result<(), Fault> {
        let mut encoded = Vec::with_capacity(texts.len());
        for (at, (text, kind)) in texts.iter().enumerate() {
            encoded.push(self.encode_whole(text, *kind, at > 0)?);
        }
        let [prompt, wholes @ ..] = &encoded[..] else { return Ok(()) };
        let shared = |whole: &Vec<u32>| {
            prompt.iter().zip(whole).take_while(|(one, other)| one == other).count()
        };
        let end = wholes.iter().map(shared).min().unwrap_or(prompt.len());
        let parts: Vec<&[u32]> =
            [&prompt[..end]].into_iter().chain(wholes.iter().map(|whole| &whole[end..])).collect();
        let ids = parts.concat();
        let length = |tokens: usize| {
            u32::try_from(tokens).ok().filter(|tokens| i32::try_from(*tokens).is_ok()).ok_or_else(
                || {
                    let message =
                        format!("the document has {tokens} tokens, more than a row can hold");
                    Fault::new(Reason::Tokenizer, message)
                },
            )
        };
        let all = length(ids.len())?;
        if all == 0 {
            return Err(Fault::new(Reason::Empty, "the texts have no token"));
        }
        ledger.read.add(u64::from(all));
        let lengths: Vec<u32> =
            parts.iter().map(|part| length(part.len())).collect::<Result<_, _>>()?;
        let labels: Vec<u32> = label.into_iter().map(u32::from).collect();
        let columns: Vec<&[u32]> = documents
            .names()
            .into_iter()
            .map(|name| match name {
                PARTS => &lengths[..],
                LABELS => &labels[..],
                _ => &ids[..],
            })
            .collect();
        documents.push(&columns, [TrainedRun { start: 0, end: all, weight: 1.0 }], line);
        Ok(())
    }

    /// Whether `reference` encodes texts in the same way.
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
            TextKind::Conversation | TextKind::BegunText => SpecialTokens::Omit,
        };
        let ending = self.ending();
        let encoding = self.encode_text(text, special)?;
        let mut ids = encoding.to_vec();
        if let Some(bos) = ending.bos_id.filter(|bos| ids.first().is_some_and(|id| id != bos)) {
            ids.insert(0, bos);
        }
        let due = ending.eos_id.filter(|_| ends && ending.eos == Eos::Always);
        ids.extend(due.filter(|eos| ids.last() != Some(eos)));
        Ok(ids)
    }
}
