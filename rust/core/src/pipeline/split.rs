//! Documents set aside for validation: which they are, and the rows and books of both splits.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::books::{Books, Fate};
use super::{About, Packing};
use crate::assemble::Sources;
use crate::config::{Split, Validation};
use crate::control::Control;
use crate::error::{Error, Origin, Result};
use crate::pack::{Pieces, Plan};
use crate::report::Report;
use crate::sink::Sink;

/// Documents between two looks at the cancel flag: far below a millisecond.
const TICK: usize = 4096;

/// What documents are drawn from: the lot that each has, and what becomes of it.
///
/// A lot is a hash of the seed and of where the record was read, so the smallest lots are the same documents whatever
/// the rows are like, and a record that is read several times is in one split alone.
pub(super) struct Draw {
    validation: Validation,
    seed: u64,
    files: HashMap<Arc<Path>, u64>,
    lots: Vec<u64>,
    fates: Vec<Fate>,
}

impl Packing<'_> {
    /// Sets documents aside, if so many are to be.
    pub(super) fn with_validation(self, validation: Option<Validation>) -> Self {
        let seed = self.options.rows.packing.seed;
        let draw = validation.map(|it| Draw::new(it, seed, self.layout.sources()));
        Self { draw, ..self }
    }
}

impl Draw {
    fn new(validation: Validation, seed: u64, sources: &Sources) -> Self {
        Self { validation, seed, files: sources.ranks(), lots: Vec::new(), fates: Vec::new() }
    }

    /// Gives the next document its lot.
    pub(super) fn add(&mut self, origin: &Origin, fate: Fate) {
        let file = self.files.get(&origin.path).copied().unwrap_or(0);
        let mut hasher = blake3::Hasher::new();
        for number in [self.seed, file, origin.line] {
            hasher.update(&number.to_le_bytes());
        }
        let hash = hasher.finalize();
        let lot = hash.as_bytes().first_chunk().expect("a hash of 32 bytes");
        self.lots.push(u64::from_le_bytes(*lot));
        self.fates.push(fate);
    }

    /// Which documents are set aside, by their numbers.
    fn set_aside(&self) -> Result<Vec<bool>> {
        let all = self.lots.len() as u64;
        if all == 0 {
            let reason = "cannot be given: there are no documents to set aside";
            return Err(Error::option("validation", reason));
        }
        let wanted = self.validation.of(all);
        if wanted >= all {
            let reason = format!(
                "sets aside {wanted} of {all} documents, which leaves none to train on; ask for fewer"
            );
            return Err(Error::option("validation", reason));
        }
        let mut order: Vec<u32> =
            (0..).zip(&self.lots).map(|(number, _): (u32, _)| number).collect();
        order.sort_unstable_by_key(|&number| (self.lots[number as usize], number));
        let mut aside = vec![false; self.lots.len()];
        let mut taken = 0;
        for same in order.chunk_by(|&a, &b| self.lots[a as usize] == self.lots[b as usize]) {
            if taken + same.len() as u64 <= wanted {
                taken += same.len() as u64;
                for &number in same {
                    aside[number as usize] = true;
                }
            }
            if taken == wanted {
                break;
            }
        }
        if taken == 0 {
            let reason =
                format!("sets aside {wanted} documents, but each record is read more often");
            return Err(Error::option("validation", reason));
        }
        Ok(aside)
    }
}

/// Packs all documents that were gathered into `sink`, where it has not been done, and closes the books.
pub(super) fn pack_into(
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

/// The rows that a run which was stopped has left in the sink.
pub(super) fn done(sink: &dyn Sink) -> usize {
    usize::try_from(sink.rows()).expect("rows of a plan, which is in memory")
}

/// Packs each split by itself; the report has one of each inside.
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
        let report = books.report(options, about.of_part(about.files, about.bytes), started)?;
        splits.insert(split.name().to_owned(), Report { timing: None, ..report });
    }
    let report = total.report(options, about, started)?;
    // An epoch is one over what is trained on.
    let steps_per_epoch = splits[Split::Train.name()].steps_per_epoch.clone();
    Ok(Report { steps_per_epoch, splits, ..report })
}

/// The rows of each split, and what became of its documents before.
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
