//! [`SinkPacker`]: from documents to rows in a sink, as soon as the strategy allows.

use std::iter;
use std::num::NonZeroU32;
use std::time::Instant;

use crate::config::Options;
use crate::document::store::DocumentStore;
use crate::error::Result;
use crate::objective::FoundClasses;
use crate::pack::{OpenPacks, Plan};
use crate::pipeline::documents::tokenized_blocks::TokenizedBlock;
use crate::pipeline::rows::early_rows::EarlyRows;
use crate::pipeline::rows::planned_packing::Packing;
use crate::pipeline::rows::run_counts::RunCounts;
use crate::pipeline::rows::split_rows;
use crate::pipeline::statistics::input_facts::InputFacts;
use crate::report::Report;
use crate::sink::Sink;
use crate::util::control::Control;

/// Packs documents into a sink.
///
/// Rows are written while documents still arrive, and these documents are freed, if the strategy never looks ahead and nothing
/// else needs all documents: a validation split, shares of sources, copies, classes that are found, another order of the rows.
/// Other runs start after the last document.
pub(in crate::pipeline) struct SinkPacker<'a> {
    options: &'a Options,
    making: EarlyOrPlannedRows<'a>,
    sink: &'a mut dyn Sink,
    control: &'a Control,
    started: Instant,
}

enum EarlyOrPlannedRows<'a> {
    EarlyRows(Box<EarlyRows<'a>>),
    Planned(Box<Packing<'a>>),
}

impl<'a> SinkPacker<'a> {
    /// Writes rows to a sink, except those that the sink already has, for a run that started at `started`.
    pub(in crate::pipeline) fn new(
        packing: Packing<'a>,
        sink: &'a mut dyn Sink,
        control: &'a Control,
        started: Instant,
    ) -> Self {
        let options = packing.options;
        let packs = &options.rows.packing;
        let drawn = packing.draw.is_some() || packing.shares.is_some();
        let once = !drawn && options.rows.copies == NonZeroU32::MIN;
        let rolls = once && packing.layout.objective().found_classes().is_none();
        let making = match OpenPacks::in_order(packs).filter(|_| rolls) {
            Some(open) => {
                // Documents that are freed early are never read back.
                let packing = Packing { store: DocumentStore::default(), ..packing };
                EarlyOrPlannedRows::EarlyRows(Box::new(EarlyRows::new(
                    packing,
                    &open,
                    split_rows::finished_rows(sink),
                    control,
                )))
            }
            None => EarlyOrPlannedRows::Planned(Box::new(packing)),
        };
        Self { options, making, sink, control, started }
    }

    /// Takes the result of a block.
    pub(in crate::pipeline) fn take(&mut self, outcome: TokenizedBlock) -> Result<()> {
        match &mut self.making {
            EarlyOrPlannedRows::EarlyRows(rolling) => rolling.take(outcome, self.sink),
            EarlyOrPlannedRows::Planned(packing) => packing.cut_and_store(outcome),
        }
    }

    /// Writes all remaining rows, and closes the counts.
    pub(in crate::pipeline) fn finish(self, about: InputFacts) -> Result<Report> {
        self.finish_after(None, about)
    }

    /// [`finish`](Self::finish) for rows that follow those of an earlier run, whose counts are `before`.
    pub(in crate::pipeline) fn finish_after(
        self,
        before: Option<RunCounts>,
        mut about: InputFacts,
    ) -> Result<Report> {
        let (options, started) = (self.options, self.started);
        about.classes(self.classes());
        let validation = match &self.making {
            EarlyOrPlannedRows::EarlyRows(_) => None,
            EarlyOrPlannedRows::Planned(packing) => packing.validation,
        };
        let Self { making, sink, control, .. } = self;
        let mut counted = close(making, options, control, sink)?;
        if let Some(mut before) = before {
            before.merge(counted);
            counted = before.close(options);
        }
        sink.keep_counts(counted.to_json());
        about.facts.warnings.extend(counted.check_split(validation)?);
        counted.report(options, about, started)
    }

    /// The names of classes that were found in the documents.
    fn classes(&self) -> Vec<String> {
        match &self.making {
            EarlyOrPlannedRows::EarlyRows(_) => Vec::new(),
            EarlyOrPlannedRows::Planned(packing) => {
                let classes = packing.layout.objective().found_classes();
                classes.map_or_else(Vec::new, FoundClasses::names)
            }
        }
    }

    /// Writes all remaining rows, and returns the counts.
    pub(in crate::pipeline) fn close(self) -> Result<RunCounts> {
        let Self { making, sink, control, options, .. } = self;
        close(making, options, control, sink)
    }
}

/// Writes all remaining rows, and returns the counts.
fn close(
    making: EarlyOrPlannedRows<'_>,
    options: &Options,
    control: &Control,
    sink: &mut dyn Sink,
) -> Result<RunCounts> {
    match making {
        EarlyOrPlannedRows::EarlyRows(rolling) => {
            let mut packing = rolling.finish(sink)?;
            if packing.packed_counts.is_without_rows() {
                // An empty batch gives the sink the schema.
                let none = Plan::new(packing.options.rows.packing.row_limit());
                packing.hand_over(&none, iter::once(0..0).collect(), 0, control, sink)?;
            }
            Ok(RunCounts { whole: packing.packed_counts.close(options), ..RunCounts::default() })
        }
        EarlyOrPlannedRows::Planned(packing) => split_rows::write_splits(*packing, sink, control),
    }
}
