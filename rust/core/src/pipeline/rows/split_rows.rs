//! The rows of a planned job: of all documents, or of each split where some are set aside for validation.

use std::mem;
use std::num::NonZeroU32;

use crate::config::{Split, Validation};
use crate::error::{Error, Result};
use crate::pack::{Piece, Pieces, Plan};
use crate::pipeline::documents::validation_split::SplitThreshold;
use crate::pipeline::rows::planned_packing::Packing;
use crate::pipeline::rows::run_counts::RunCounts;
use crate::pipeline::rows::source_share_draw::ShareDraw;
use crate::pipeline::rows::validation_draw::ValidationDraw;
use crate::pipeline::statistics::packed_counts::PackedCounts;
use crate::sink::Sink;
use crate::source::FoundFiles;
use crate::util::control::Control;
use crate::util::wording::{message, set};

/// Documents between two checks of the cancel flag: far below a millisecond.
const TICK: usize = 4096;

impl Packing<'_> {
    /// Sets documents aside for validation, if `validation` is given.
    ///
    /// Fails with [`Error::Option`] where documents are copied: a copy would be trained on and validated.
    pub(in crate::pipeline) fn with_validation(
        self,
        validation: Option<Validation>,
    ) -> Result<Self> {
        if validation.is_some() && self.options.rows.copies > NonZeroU32::MIN {
            let reason = "is given beside `objective.copies`; leave one of them out";
            return Err(Error::option("validation", reason));
        }
        let seed = self.options.rows.packing.seed;
        Ok(Self { draw: validation.map(|it| ValidationDraw::new(it, seed)), validation, ..self })
    }

    /// Accepts a split with all documents on one side: they are few, and those of the rows before them are on both.
    pub(in crate::pipeline) fn allowing_one_side(self) -> Self {
        Self { validation: None, ..self }
    }

    /// Draws documents by the shares of their sources, if such are given. The sources are those of `found`.
    ///
    /// Fails with [`Error::Option`] where documents that are read again would be validated more than once.
    pub(in crate::pipeline) fn with_shares(self, found: Option<&FoundFiles>) -> Result<Self> {
        let (Some(shares), Some(found)) = (&self.options.rows.shares, found) else {
            return Ok(self);
        };
        if shares.repeats() && self.validation.is_some() {
            let reason = message![
                "is given beside ",
                set("weights.stopping_strategy", "all_exhausted"),
                ", which reads documents again; leave one of them out",
            ];
            return Err(Error::option("validation", reason));
        }
        if shares.repeats() && self.layout.objective().is_random() {
            let reason = message![
                "would give documents that are read again the same random numbers with ",
                set("objective", self.options.rows.objective.name().name()),
                "; `repeat` of a source draws them anew",
            ];
            return Err(Error::option("weights.stopping_strategy", reason));
        }
        let draw = ShareDraw::new(shares.clone(), self.options.rows.packing.seed, found)?;
        Ok(Self { shares: Some(draw), ..self })
    }

    /// Sets documents aside by a threshold that all groups have, if it is known before their documents are.
    pub(in crate::pipeline) fn with_threshold(self, threshold: Option<SplitThreshold>) -> Self {
        let Some(threshold) = threshold else { return self };
        Self { draw: self.draw.map(|draw| draw.with_threshold(threshold)), ..self }
    }
}

/// Packs all gathered documents into `sink`, except the rows that it already has. Returns the counts.
pub(in crate::pipeline) fn write_splits(
    mut packing: Packing<'_>,
    sink: &mut dyn Sink,
    control: &Control,
) -> Result<RunCounts> {
    let done = finished_rows(sink);
    let shares = packing.draw_shares(control)?;
    if let Some(draw) = packing.draw.take() {
        let counted = pack_splits(packing, &draw, sink, done, control)?;
        return Ok(RunCounts { shares, ..counted });
    }
    let options = packing.options;
    let separate = packing.pack(done, control, sink)?;
    Ok(RunCounts {
        whole: packing.packed_counts.close(options),
        shared: vec![separate],
        shares,
        ..RunCounts::default()
    })
}

/// The number of rows that a stopped run has left in the sink.
pub(in crate::pipeline) fn finished_rows(sink: &dyn Sink) -> usize {
    usize::try_from(sink.rows()).expect("rows of a plan, which is in memory")
}

/// Packs each split separately.
fn pack_splits(
    mut packing: Packing<'_>,
    draw: &ValidationDraw,
    sink: &mut dyn Sink,
    mut done: usize,
    control: &Control,
) -> Result<RunCounts> {
    let options = packing.options;
    let planned = plan_splits(&mut packing, draw, control)?;
    let mut counted =
        RunCounts { whole: mem::take(&mut packing.packed_counts), ..RunCounts::default() };
    counted.splits = planned.iter().map(|planned| planned.packed_counts.clone()).collect();
    if !packing.is_group {
        counted.check_split(packing.validation)?;
    }
    counted.check_max_lost(options.work.max_lost)?;
    counted.splits.clear();
    for PlannedSplit { split, plan, mut packed_counts, separate } in planned {
        sink.begin_split(split)?;
        packing.write(&plan, &mut packed_counts, done, control, sink)?;
        done = done.saturating_sub(plan.rows());
        counted.splits.push(packed_counts.close(options));
        counted.shared.push(packing.shared(&plan, &separate, control)?);
    }
    Ok(counted)
}

/// The plan of a split, and its counts so far.
struct PlannedSplit {
    split: Split,
    plan: Plan,
    packed_counts: PackedCounts,
    /// The pieces that are to share rows with those of other groups.
    separate: Vec<Piece>,
}

/// The plan of each split, and the cut results of its documents.
fn plan_splits(
    packing: &mut Packing<'_>,
    draw: &ValidationDraw,
    control: &Control,
) -> Result<Vec<PlannedSplit>> {
    let aside = draw.set_aside();
    let (mut train, mut validation) = (PackedCounts::default(), PackedCounts::default());
    for (number, cut_result) in draw.cut_results.iter().enumerate() {
        if number.is_multiple_of(TICK) {
            control.tick()?;
        }
        let packed_counts = if aside[number] { &mut validation } else { &mut train };
        packed_counts.read(cut_result, || packing.store.origin(number as u64));
    }
    let pieces: Pieces = mem::take(&mut packing.pieces).iter().flat_map(Pieces::iter).collect();
    let (held, trained): (Pieces, Pieces) =
        pieces.iter().partition(|piece| aside[piece.document as usize]);
    let parts = [(Split::Train, train, trained), (Split::Validation, validation, held)];
    let planned = parts.into_iter().map(|(split, mut packed_counts, pieces)| {
        let (plan, separate) = packing.plan(pieces, &mut packed_counts, control)?;
        Ok(PlannedSplit { split, plan, packed_counts, separate })
    });
    planned.collect()
}
