//! Records that give no document: [`refuse_or_count`] ends the run for one, or counts it among those that are left out.

use crate::config::OnBadRecord;
use crate::error::{Error, Origin, Result};
use crate::pipeline::documents::rendering::record_failure::RecordFailure;
use crate::record::Fault;
use crate::report::ledger::{DroppedRecord, Ledger, Reason};

/// Fails for a record that ends the run. Else counts it in `ledger`, and adds it to `listed`, if records are listed.
pub(super) fn refuse_or_count(
    failure: RecordFailure<'_>,
    on_bad_record: OnBadRecord,
    origin: Origin,
    ledger: &mut Ledger,
    listed: Option<&mut Vec<DroppedRecord>>,
) -> Result<()> {
    match (failure, on_bad_record) {
        (RecordFailure::OtherSplit, _) => {}
        (RecordFailure::Run(error), _) => return Err(error),
        (RecordFailure::NoTemplate(error), _) => {
            return Err(error.with_record(&origin, "a conversation"));
        }
        (RecordFailure::NoTokenizer, _) => {
            return Err(Error::no_tokenizer().with_record(&origin, "a text"));
        }
        (RecordFailure::Record(Fault { reason: Reason::Empty, message }), _) => {
            ledger.read.add(0);
            ledger.drop_document(Reason::Empty, 0, origin.clone());
            if let Some(listed) = listed {
                listed.push(DroppedRecord { origin, reason: Reason::Empty, message });
            }
        }
        (RecordFailure::Record(fault), OnBadRecord::Error) => return Err(fault.into_error(origin)),
        (RecordFailure::Record(fault), OnBadRecord::Skip) => {
            let place = fault.into_place(origin);
            if let Some(listed) = listed {
                listed.push(place.clone());
            }
            ledger.bad_record(place);
        }
    }
    Ok(())
}
