//! One record, through all stages to its documents.

use std::sync::Arc;

use crate::document::bos_and_eos::{BosAndEos, TextKind};
use crate::document::tokenize::DocumentMaker;
use crate::document::{Documents, ids};
use crate::error::Origin;
use crate::pipeline::documents::record_renderer::{ReadOptions, RecordRenderer};
use crate::pipeline::documents::reference_check::{Verification, is_compared};
use crate::pipeline::documents::rendering::record_failure::RecordFailure;
use crate::pipeline::documents::rendering::source_renderer::RenderedRecord;
use crate::pipeline::job::Job;
use crate::report::ledger::{ConversationDocuments, Ledger, RecordNotes};
use crate::report::timing::{Clock, Stage};
use crate::source::RawRecord;

/// Takes one record through all stages to its documents.
pub(super) fn take_record<'a>(
    raw: RawRecord<'_>,
    options: ReadOptions<'_, 'a>,
    parts: WorkerParts<'_, 'a>,
    clock: &mut Clock,
    documents: &mut Documents,
    ledger: &mut Ledger,
) -> Result<Verification, RecordFailure<'a>> {
    let WorkerParts { worker, maker, mut reference, bos_and_eos } = parts;
    let record = worker.render_record(raw.raw, options, clock)?;
    let (texts, kind) = match record {
        RenderedRecord::Text(rendered, kind) => (vec![rendered], kind),
        RenderedRecord::Texts(texts) => (texts, TextKind::Conversation),
        RenderedRecord::Tokens(tokens, trained) => {
            ids::take(tokens, trained, bos_and_eos, raw.line, documents, ledger)?;
            return Ok(Verification::NotCompared);
        }
        RenderedRecord::Several(several) => {
            let maker = maker.ok_or(RecordFailure::NoTokenizer)?;
            let encoded = maker.make_several(&several, raw.line, documents, ledger);
            let checked = match reference {
                Some(reference) if encoded.is_ok() && is_compared(several.longest()) => {
                    Verification::of(maker.agree(&several.texts, reference))
                }
                _ => Verification::NotCompared,
            };
            clock.lap(Stage::Encode);
            encoded?;
            let path = documents.path();
            let seen = RecordNotes {
                unread: &several.unread,
                notes: several.notes,
                ..RecordNotes::default()
            };
            ledger.notes.add(seen, || Origin { path: Arc::clone(path), line: raw.line });
            return Ok(checked);
        }
    };
    let maker = maker.ok_or(RecordFailure::NoTokenizer)?;
    let mut checked = Verification::NotCompared;
    let count = texts.len();
    let mut split =
        ConversationDocuments { documents: count as u64, ..ConversationDocuments::default() };
    for (number, rendered) in texts.into_iter().enumerate() {
        let before = ledger.read.tokens;
        let encoded = maker.make(&rendered, kind, raw.line, documents, ledger);
        if let Some(reference) = &mut reference
            && encoded.is_ok()
            && is_compared(rendered.text.len())
            && !matches!(checked, Verification::Differs)
        {
            checked = Verification::of(maker.agrees(&rendered, kind, reference));
        }
        clock.lap(Stage::Encode);
        split.tokens += ledger.read.tokens - before;
        let is_last = number + 1 == count;
        if let Some(whole) = rendered.whole.filter(|_| is_last) {
            split.last_tokens = ledger.read.tokens - before;
            split.whole_tokens = scaled(split.last_tokens, rendered.text.len(), whole.bytes);
            split.turns = whole.turns;
            split.rewritten_turns = whole.rewritten_turns;
        }
        if encoded.is_ok() {
            let seen = RecordNotes {
                left_out: &rendered.left_out,
                unread: &rendered.unread,
                notes: rendered.notes,
                split: (is_last && count > 1).then_some(split),
            };
            let path = documents.path();
            ledger.notes.add(seen, || Origin { path: Arc::clone(path), line: raw.line });
        }
        worker.give_back(rendered);
        encoded?;
    }
    Ok(checked)
}

/// Some tokens of a text of `from` bytes in proportion to one of `to` bytes.
fn scaled(tokens: u64, from: usize, to: usize) -> u64 {
    let scaled = u128::from(tokens) * to as u128 / from.max(1) as u128;
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// The tokens at the beginning and end of the documents of a job.
pub(super) fn bos_and_eos(job: &Job) -> BosAndEos {
    BosAndEos {
        eos: job.options.tokens.eos,
        bos: job.options.tokens.bos,
        eos_id: job.eos_id,
        bos_id: job.bos_id,
        begin: job.begin.as_deref().map(Arc::from),
        end: job.end.as_deref().map(Arc::from),
        frames_conversations: job
            .options
            .tokens
            .images
            .as_ref()
            .is_some_and(|it| it.adds_special_tokens),
    }
}

/// The worker of one thread, and its engines.
pub(super) struct WorkerParts<'w, 'a> {
    pub(super) worker: &'w mut RecordRenderer<'a>,
    /// The engine of the tokenizer, if there is one.
    pub(super) maker: Option<&'w mut DocumentMaker>,
    /// The reference engine, if documents are compared with it.
    pub(super) reference: Option<&'w mut DocumentMaker>,
    pub(super) bos_and_eos: &'w BosAndEos,
}
