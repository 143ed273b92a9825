//! Ids that a record brings to a document: they need no tokenizer.

use super::bos_and_eos::BosAndEos;
use super::documents::Documents;
use super::tokenize::push;
use crate::config::Eos;
use crate::record::TrainedRun;
use crate::record::{Fault, RecordTokens};
use crate::report::ledger::{Ledger, Reason};

/// The trained part of ids that a record brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrainedIds {
    /// The part that the record names, or all of them.
    Named,
    /// As `Named`, but without the end-of-text token if the record does not name it.
    NoEnd,
    /// All tokens, against the record's own labels and masks.
    All,
    /// Nothing: they are a prompt.
    Nothing,
}

/// Appends the ids of a record to `documents`, with the tokens trained that the record or `trains` names, or counts
/// in `ledger` why not.
pub fn take(
    tokens: RecordTokens,
    trains: TrainedIds,
    bos_and_eos: &BosAndEos,
    line: u64,
    documents: &mut Documents,
    ledger: &mut Ledger,
) -> Result<(), Fault> {
    let RecordTokens { mut ids, trained } = tokens;
    let mut length = position(ids.len())?;
    let trained = trained.filter(|_| trains != TrainedIds::All);
    let silent = trained.is_none();
    let mut runs =
        trained.unwrap_or_else(|| vec![TrainedRun { start: 0, end: length, weight: 1.0 }]);
    if let Some(bos) = bos_and_eos.bos_due(ids.first().copied()) {
        ids.insert(0, bos);
        length = position(ids.len())?;
        for run in &mut runs {
            (run.start, run.end) = (run.start + 1, run.end + 1);
        }
    }
    let due = match bos_and_eos.eos {
        Eos::Always => bos_and_eos.eos_id.filter(|id| ids.last() != Some(id)),
        Eos::Auto | Eos::Never => None,
    };
    if let Some(eos) = due {
        ids.push(eos);
        // It is trained as the run before it.
        if let Some(last) = runs.last_mut().filter(|last| last.end == length) {
            last.end += 1;
        }
        length = position(ids.len())?;
    }
    if trains == TrainedIds::NoEnd
        && (silent || due.is_some())
        && ids.last() == bos_and_eos.eos_id.as_ref()
        && let Some(last) = runs.last_mut()
    {
        last.end = last.end.min(length - 1);
        runs.retain(|run| run.start < run.end);
    }
    ledger.read.add(u64::from(length));
    if trains != TrainedIds::Nothing && runs.last().is_none_or(|run| run.end <= 1) {
        let origin = documents.origin_of(line);
        ledger.drop_document(Reason::NoTrainedToken, u64::from(length), origin);
    } else {
        push(documents, [&ids, &[], &[]], runs, line);
    }
    Ok(())
}

/// A number of tokens as a position in a document.
fn position(tokens: usize) -> Result<u32, Fault> {
    u32::try_from(tokens).map_err(|_| {
        let message = format!("the document has {tokens} tokens, more than a row can hold");
        Fault::new(Reason::Tokenizer, message)
    })
}
