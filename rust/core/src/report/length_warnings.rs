//! [`length_warnings`]: warns of documents and tokens that are lost because documents are longer than a row.

use crate::report::histogram::Histogram;
use crate::report::ledger::{Ledger, Reason};
use crate::report::timing::ratio;
use crate::util::message::counted;

/// The share of documents or tokens lost for length above which the report warns.
const MUCH_LOST: f64 = 0.01;

/// The warnings for a run that loses many documents or tokens because documents are longer than a row.
pub(super) fn length_warnings(ledger: &Ledger, lengths: &Histogram) -> Vec<String> {
    let dropped = ledger.dropped.get(&Reason::TooLong).copied().unwrap_or_default();
    let losses = [(dropped, "dropped"), (ledger.truncated, "cut")];
    let warnings = losses.into_iter().filter_map(|(lost, how)| {
        let tokens = ratio(lost.tokens, ledger.read.tokens);
        let documents = ratio(lost.documents, ledger.read.documents);
        (tokens > MUCH_LOST || documents > MUCH_LOST).then(|| {
            format!(
                "{:.1} % of the tokens are lost: {} ({:.1} %) {} {how} because {} longer than a row; \
                 a `max_length` of {} would hold 99 % of the tokens, and an `overlong` of \"split\" keeps all",
                tokens * 100.0,
                counted(lost.documents, "document"),
                documents * 100.0,
                if lost.documents == 1 { "was" } else { "were" },
                if lost.documents == 1 { "it is" } else { "they are" },
                lengths.length_of_tokens(99),
            )
        })
    });
    warnings.collect()
}
