//! [`SharedDocument`]: a document of a group that shares rows with documents of other groups.
//!
//! Rows of `order="balanced"` are shared by ranks. Each group writes as many rows as they can share equally; the
//! documents of its other rows are packed together with those of all other groups, once all groups are packed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::assemble::{DocumentSlice, DocumentsOfRows};
use crate::document::{ColumnName, Documents, INPUTS, PICTURES, Pass, TrainedRun};
use crate::pack::{Piece, PieceSizes, Plan};

/// A document, or the pieces of it, that share rows with documents of other groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::pipeline) struct SharedDocument {
    /// The number of its file among those of the job.
    file: u64,
    line: u64,
    /// The number of earlier reads of its source.
    repetition: u64,
    /// The turn that it is of, if it is of one.
    turn: u32,
    /// Its pictures, as a column holds them.
    pictures: Vec<u32>,
    pieces: Vec<SharedPiece>,
    /// True if other pieces of the document are in rows of its group.
    elsewhere: bool,
}

/// A piece of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SharedPiece {
    /// Its first token in the document.
    start: u32,
    ids: Vec<u32>,
    /// The trained runs in it: their begin and end in the document, and the bits of their weight.
    runs: Vec<(u32, u32, u32)>,
    #[serde(rename = "made")]
    sizes: PieceSizes,
}

impl SharedDocument {
    /// The documents of `pieces`, which are the rows of `gathered`. The other pieces of the group are in `plan`.
    /// `ranks` has the number of each file.
    pub(super) fn of(
        pieces: &[Piece],
        gathered: &DocumentsOfRows<'_>,
        plan: &Plan,
        ranks: &HashMap<Arc<Path>, u64>,
    ) -> Vec<Self> {
        let mut documents: BTreeMap<u32, Self> = BTreeMap::new();
        for (piece, document_slice) in pieces.iter().zip(gathered.pieces(0..pieces.len())) {
            let origin = document_slice.document.origin();
            let document = documents.entry(piece.document).or_insert_with(|| Self {
                file: ranks.get(&origin.path).copied().unwrap_or(0),
                line: origin.line,
                repetition: document_slice.document.pass().repetition,
                turn: document_slice.document.turn(),
                pictures: document_slice.document.numbers(PICTURES).to_vec(),
                pieces: Vec::new(),
                elsewhere: false,
            });
            document.pieces.push(SharedPiece::of(document_slice, piece.sizes));
        }
        for member in plan.members() {
            if let Some(document) = documents.get_mut(member) {
                document.elsewhere = true;
            }
        }
        documents.into_values().collect()
    }
}

impl SharedPiece {
    fn of(document_slice: DocumentSlice<'_>, sizes: PieceSizes) -> Self {
        let DocumentSlice { document, start, length, first, .. } = document_slice;
        let ids = &document.column(INPUTS)[start as usize..][..length as usize];
        let inside = document.trained().iter().filter_map(|run| {
            let (begin, end) = (run.start.max(start), run.end.min(start + length));
            let moved = |at: u32| at - start + first;
            (begin < end).then(|| (moved(begin), moved(end), run.weight.to_bits()))
        });
        Self { start: first, ids: ids.to_vec(), runs: inside.collect(), sizes }
    }
}

/// The documents that groups left to be packed together.
pub(in crate::pipeline) struct LeftoverDocuments {
    /// The documents. Tokens that belong to no piece are zeros.
    pub(in crate::pipeline) documents: Vec<Documents>,
    /// The pieces to be packed, by the numbers of the documents.
    pub(in crate::pipeline) pieces: Vec<Piece>,
    /// The documents with other pieces in rows already.
    pub(in crate::pipeline) elsewhere: HashSet<u32>,
}

impl LeftoverDocuments {
    /// The documents of all groups, in their order; `files` are those of the job, by their numbers.
    pub(in crate::pipeline) fn of(shared: Vec<SharedDocument>, files: &[Arc<Path>]) -> Self {
        let mut leftovers =
            Self { documents: Vec::new(), pieces: Vec::new(), elsewhere: HashSet::new() };
        for (number, document) in (0..).zip(shared) {
            let file = usize::try_from(document.file).ok().and_then(|file| files.get(file));
            let path = file.map_or_else(|| Arc::from(Path::new("")), Arc::clone);
            if document.elsewhere {
                leftovers.elsewhere.insert(number);
            }
            let (mut ids, mut runs) = (Vec::new(), Vec::new());
            for piece in document.pieces {
                let (start, end) = (piece.start as usize, piece.start as usize + piece.ids.len());
                if ids.len() < end {
                    ids.resize(end, 0);
                }
                ids[start..end].copy_from_slice(&piece.ids);
                let length = u32::try_from(piece.ids.len()).expect("a piece of a row");
                let sizes = piece.sizes;
                leftovers.pieces.push(Piece {
                    document: number,
                    start: piece.start,
                    length,
                    sizes,
                });
                runs.extend(piece.runs.into_iter().map(|(start, end, weight)| TrainedRun {
                    start,
                    end,
                    weight: f32::from_bits(weight),
                }));
            }
            runs.sort_unstable_by_key(|run: &TrainedRun| run.start);
            let columns: &[ColumnName] = &[INPUTS, PICTURES];
            let pass = Pass { epoch: 0, repetition: document.repetition };
            let mut alone = Documents::new(path, columns).of_pass(pass);
            alone.push(&[&ids, &document.pictures], runs, document.line);
            alone.mark_turn(document.turn);
            leftovers.documents.push(alone);
        }
        leftovers
    }
}
