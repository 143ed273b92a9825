//! Documents set aside for validation: selects them, and makes the rows and books of both splits.

use std::collections::BTreeMap;
use std::mem;
use std::time::Instant;

use crate::config::{Split, Validation};
use crate::control::Control;
use crate::error::Result;
use crate::pack::{Pieces, Plan};
use crate::pipeline::accounts::about::About;
use crate::pipeline::accounts::books::Books;
use crate::pipeline::rows::draw::Draw;
use crate::pipeline::rows::packing::Packing;
use crate::report::Report;
use crate::sink::Sink;

/// Documents between two checks of the cancel flag: far below a millisecond.
const TICK: usize = 4096;

impl Packing<'_> {
    /// Sets documents aside for validation, if `validation` is given.
    pub(in crate::pipeline) fn with_validation(self, validation: Option<Validation>) -> Self {
        let seed = self.options.rows.packing.seed;
        let draw = validation.map(|it| Draw::new(it, seed, self.layout.sources()));
        Self { draw, ..self }
    }
}

/// Packs all gathered documents into `sink`, except the rows that it already has, and closes the books.
pub(in crate::pipeline) fn pack_into(
    mut packing: Packing<'_>,
    sink: &mut dyn Sink,
    about: About,
    control: &Control,
    started: Instant,
) -> Result<Report> {
    let done = done(sink);
    if let Some(draw) = packing.draw.take() {
        return pack_splits(packing, &draw, (sink, done), about, control, started);
    }
    packing.pack(done, control, &mut |batch| sink.write(&batch))?;
    packing.report(about, started)
}

/// The number of rows that a stopped run has left in the sink.
pub(in crate::pipeline) fn done(sink: &dyn Sink) -> usize {
    usize::try_from(sink.rows()).expect("rows of a plan, which is in memory")
}

/// Packs each split separately. The report contains one of each.
fn pack_splits(
    mut packing: Packing<'_>,
    draw: &Draw,
    (sink, mut done): (&mut dyn Sink, usize),
    about: About,
    control: &Control,
    started: Instant,
) -> Result<Report> {
    let options = packing.options;
    let planned = plan_splits(&mut packing, draw, control)?;
    let mut total = mem::take(&mut packing.books);
    let mut lost = total.clone();
    for (_, _, books) in &planned {
        lost.merge_read(books.clone());
    }
    lost.allow(options.work.max_lost)?;
    let mut splits = BTreeMap::new();
    for (split, plan, mut books) in planned {
        sink.begin_split(split)?;
        packing.write(&plan, &mut books, done, control, &mut |batch| sink.write(&batch))?;
        done = done.saturating_sub(plan.rows());
        let books = books.close(options);
        total.merge_read(books.clone());
        let report =
            books.report(options, about.of_part(about.facts.files, about.facts.bytes), started)?;
        splits.insert(split.name().to_owned(), Report { timing: None, ..report });
    }
    let report = total.report(options, about, started)?;
    // An epoch is an epoch of the training split.
    let steps_per_epoch = splits[Split::Train.name()].steps_per_epoch.clone();
    Ok(Report { steps_per_epoch, splits, ..report })
}

/// The plan of each split, and the fates of its documents.
fn plan_splits(
    packing: &mut Packing<'_>,
    draw: &Draw,
    control: &Control,
) -> Result<Vec<(Split, Plan, Books)>> {
    let aside = draw.set_aside()?;
    let (mut train, mut validation) = (Books::default(), Books::default());
    for (number, fate) in draw.fates.iter().enumerate() {
        if number.is_multiple_of(TICK) {
            control.tick()?;
        }
        let books = if aside[number] { &mut validation } else { &mut train };
        books.read(fate, || packing.store.origin(number as u64));
    }
    let pieces = mem::take(&mut packing.pieces);
    let (held, trained): (Pieces, Pieces) =
        pieces.iter().partition(|piece| aside[piece.document as usize]);
    let parts = [(Split::Train, train, trained), (Split::Validation, validation, held)];
    let planned = parts.into_iter().map(|(split, mut books, pieces)| {
        let plan = packing.plan(pieces, &mut books, control)?;
        Ok((split, plan, books))
    });
    planned.collect()
}
