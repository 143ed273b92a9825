//! [`RecordFailure`]: the reason that a record has no result.

use crate::error::Error;
use crate::record::Fault;

/// The reason that a record has no result.
pub(crate) enum RecordFailure<'a> {
    /// The record is at fault.
    Record(Fault),
    /// The job has no template for conversations.
    NoTemplate(&'a Error),
    /// The job has no tokenizer for texts.
    NoTokenizer,
    /// The record is of the other split.
    OtherSplit,
    /// A function of the caller ended the run.
    Run(Error),
}

impl From<Fault> for RecordFailure<'_> {
    fn from(fault: Fault) -> Self {
        Self::Record(fault)
    }
}
