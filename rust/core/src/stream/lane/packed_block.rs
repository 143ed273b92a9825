//! [`PackedBlock`]: the documents of a block of a lane, in packing order.

use std::sync::Arc;

use super::lane_blocks::{ChosenDocuments, LaneBlock};
use super::record_order::{BlockAddress, RecordOrder};
use crate::document::{Documents, INPUTS, Pass};
use crate::error::{Error, Origin, Result};
use crate::pipeline::{ChosenBlocks, TokenizedBlock, WantedRecords};
use crate::record::{Fault, Shape};
use crate::report::ledger::{DroppedRecord, Ledger, Reason};
use crate::report::timing::StageWork;
use crate::source::extents::extent::number_line;
use crate::source::{Block, RawContent};
use crate::stream::state::lane_state::{place_of, record_and_number};
use crate::util::control::Control;

/// The documents of a block of a lane.
#[derive(Debug)]
pub(crate) struct PackedBlock {
    pub(crate) address: BlockAddress,
    /// The hash of its records, and that of the extents of the lane in its portion, if there are any.
    pub(crate) hash: u32,
    pub(crate) dealt: Option<u32>,
    /// The documents in packing order, and the place of each in the order of the block.
    pub(crate) documents: Documents,
    pub(crate) places: Vec<u64>,
    /// The counts of the records that were read here for the first time.
    pub(crate) ledger: Ledger,
    pub(crate) work: StageWork,
    /// The first record that has become a bad one by its picture, though it was counted before a resume.
    pub(crate) lost_picture: Option<DroppedRecord>,
    /// The error that ends the run after these documents, if any.
    pub(crate) end: Option<Error>,
}

/// The error of a record of more documents than a state can tell apart.
fn too_many(origin: &Origin) -> Error {
    let message = "becomes more than 65,536 documents; `turns` may be \"whole\" or \"last\"";
    Fault::new(Reason::Unmaskable, message).into_error(origin.clone())
}

impl PackedBlock {
    /// Makes the documents of a block by `work`.
    pub(crate) fn of(
        found: LaneBlock,
        order: &RecordOrder<'_>,
        single: &ChosenBlocks<'_>,
        work: impl FnOnce(Block, Option<Arc<Shape>>, WantedRecords) -> Result<TokenizedBlock>,
        control: &Control,
    ) -> Result<Self> {
        let LaneBlock { address, extent, chosen, first_record, block, shape, hash, dealt } = found;
        let count = block.records().count();
        let records = order.records(&address, &extent, count, control)?;
        let mut places = vec![0_u64; count];
        for (place, &record) in (0..).zip(&records) {
            places[record as usize] = place;
        }
        let is_chosen = |place: &u64| match &chosen {
            ChosenDocuments::From(first) => place >= first,
            ChosenDocuments::Only(some) => some.binary_search(place).is_ok(),
        };
        let is_wanted = |&record: &u64| match &chosen {
            ChosenDocuments::From(first) => record >= record_and_number(*first).0,
            ChosenDocuments::Only(some) => {
                let at = some.partition_point(|place| record_and_number(*place).0 < record);
                some.get(at).is_some_and(|place| record_and_number(*place).0 == record)
            }
        };
        let mut wanted: WantedRecords = places.iter().map(is_wanted).collect();
        let size = block.size;
        let is_new = matches!(chosen, ChosenDocuments::From(0));
        let of_split =
            |raw: RawContent<'_>| single.is_of_split(raw, block.source, shape.as_deref());
        let chosen_records = order.chosen(&block, &extent, first_record, &of_split);
        let (block, left_out) = match chosen_records {
            Some(taken) => {
                wanted.iter_mut().zip(&taken.taken).for_each(|(wanted, taken)| *wanted &= taken);
                (block.refusing(taken.refused), taken.left_out)
            }
            None => (block, 0),
        };
        let mut outcome = work(block, shape, wanted)?;
        outcome.ledger.filtered(left_out);
        if let Some(fitting) = order.choice.documents(&outcome.documents) {
            let mut stays = fitting.iter().copied().peekable();
            for at in 0..outcome.documents.len() {
                if stays.next_if_eq(&at).is_none() {
                    let document = outcome.documents.document(at);
                    let tokens = document.column(INPUTS).len() as u64;
                    outcome.ledger.drop_document(Reason::Filtered, tokens, document.origin());
                }
            }
            outcome.records = fitting.iter().map(|&at| outcome.records[at]).collect();
            outcome.documents = outcome.documents.select(&fitting);
        }
        let read = outcome.ledger.read;
        control.count_block(size, read.documents, read.tokens);
        let mut of: Vec<(u64, usize)> = Vec::with_capacity(outcome.records.len());
        let mut number = 0;
        for (at, &record) in outcome.records.iter().enumerate() {
            number = if at > 0 && outcome.records[at - 1] == record { number + 1 } else { 0 };
            let place = place_of(places[record as usize], number);
            let place = place.ok_or_else(|| too_many(&outcome.documents.document(at).origin()))?;
            if is_chosen(&place) {
                of.push((place, at));
            }
        }
        let is_in_order = of.len() == outcome.records.len() && of.is_sorted();
        let documents = if is_in_order {
            outcome.documents
        } else {
            of.sort_unstable();
            outcome.documents.select(&of.iter().map(|&(_, index)| index).collect::<Vec<_>>())
        };
        if let Some(Error::Record { origin, .. }) = &mut outcome.end
            && order.names_bytes()
        {
            number_line(order.found, origin, control)?;
        }
        let by_picture = |place: &&DroppedRecord| place.reason == Reason::Picture;
        let mut lost_picture =
            outcome.ledger.places.iter().find(by_picture).filter(|_| !is_new).cloned();
        if let Some(DroppedRecord { origin, .. }) = &mut lost_picture
            && order.names_bytes()
        {
            number_line(order.found, origin, control)?;
        }
        let pass = Pass { epoch: address.epoch, ..documents.pass() };
        Ok(Self {
            address,
            hash,
            dealt,
            documents: documents.of_pass(pass),
            places: of.into_iter().map(|(place, _)| place).collect(),
            // Records that were counted before a resume are not counted again.
            ledger: if is_new { outcome.ledger } else { Ledger::default() },
            work: outcome.work,
            lost_picture,
            end: outcome.end,
        })
    }
}
