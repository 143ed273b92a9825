//! [`Pieces`]: documents, and parts of documents, to be packed, in input order. [`cut_overlong`](super::cut_overlong) says where
//! documents that are too long are cut.

use serde::{Deserialize, Serialize};

use super::cancel_checks::{TICK, collect};
use crate::config::{PackOptions, PictureSizes};
use crate::error::{Error, Result};
use crate::util::control::Control;
use crate::util::random::Random;

/// A whole document, or a part of one that fits into a row, by numbers alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The document's number.
    pub document: u32,
    /// The first token.
    pub start: u32,
    /// The number of tokens, at least 1.
    pub length: u32,
    /// Its sizes after the objective.
    pub sizes: PieceSizes,
}

/// The sizes of a piece after its objective, and the key of its random numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceSizes {
    /// The tokens of the piece in its row; 0 for as many as it has in its document.
    pub tokens: u32,
    /// The tokens of the piece among the row's targets.
    pub targets: u32,
    /// The pictures of the piece, if rows have limits of pictures.
    pub pictures: PictureSizes,
    /// The key of its random numbers.
    pub key: u64,
}

impl Piece {
    /// A piece that stands in its row as in its document.
    pub fn new(document: u32, start: u32, length: u32) -> Self {
        Self { document, start, length, sizes: PieceSizes::default() }
    }

    /// The tokens of the piece in its row, at most `max_length`.
    pub fn tokens(&self) -> u32 {
        if self.sizes.tokens == 0 { self.length } else { self.sizes.tokens }
    }

    /// The share of a row that it takes, in tokens.
    pub(crate) fn share(&self, options: &PackOptions) -> u32 {
        options.share(self.tokens(), self.sizes.targets, self.sizes.pictures)
    }
}

/// Pieces as columns. A column is left out while it has only default values.
///
/// Usually every document is packed whole. Then only the column of lengths exists, and packing reads a third of the
/// memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    lengths: Vec<u32>,
    /// The document of each piece; left out while it equals the index of the piece.
    documents: Option<Vec<u32>>,
    /// The first token of each piece; left out while all are 0.
    starts: Option<Vec<u32>>,
    /// The sizes of each piece after the objective; left out while they stand as in their documents.
    sizes: Option<Vec<PieceSizes>>,
}

/// The columns of some pieces.
#[derive(Debug)]
pub(super) struct PieceColumns {
    pub(super) documents: Vec<u32>,
    pub(super) starts: Vec<u32>,
    pub(super) lengths: Vec<u32>,
    pub(super) sizes: Option<Vec<PieceSizes>>,
}

impl Pieces {
    /// No pieces, with capacity for `pieces` lengths.
    pub fn with_capacity(pieces: usize) -> Self {
        Self { lengths: Vec::with_capacity(pieces), ..Self::default() }
    }

    /// Whole documents of these lengths, numbered as they come.
    pub fn whole(lengths: Vec<u32>) -> Self {
        Self { lengths, ..Self::default() }
    }

    /// Appends a piece.
    pub fn push(&mut self, piece: Piece) {
        let Piece { document, start, length, sizes } = piece;
        let index = self.lengths.len();
        if self.documents.is_none() && document as usize != index {
            self.documents = Some((0..document_of(index)).collect());
        }
        if let Some(documents) = &mut self.documents {
            documents.push(document);
        }
        if self.starts.is_none() && start > 0 {
            self.starts = Some(vec![0; index]);
        }
        if let Some(starts) = &mut self.starts {
            starts.push(start);
        }
        if self.sizes.is_none() && sizes != PieceSizes::default() {
            self.sizes = Some(vec![PieceSizes::default(); index]);
        }
        if let Some(all) = &mut self.sizes {
            all.push(sizes);
        }
        self.lengths.push(length);
    }

    /// The number of pieces.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// True if there is no piece.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// The number of tokens of each piece in its document.
    pub fn lengths(&self) -> &[u32] {
        &self.lengths
    }

    /// True if each piece takes as much of its row as it has tokens in its document.
    pub(super) fn are_plain(&self) -> bool {
        let plain =
            |sizes: &PieceSizes| PieceSizes { key: sizes.key, ..PieceSizes::default() } == *sizes;
        self.sizes.as_ref().is_none_or(|all| all.iter().all(plain))
    }

    /// The piece at `index`.
    ///
    /// # Panics
    ///
    /// If there is no such piece.
    pub fn get(&self, index: usize) -> Piece {
        Piece {
            document: self.documents.as_ref().map_or_else(|| document_of(index), |all| all[index]),
            start: self.starts.as_ref().map_or(0, |all| all[index]),
            length: self.lengths[index],
            sizes: self.sizes.as_ref().map_or_else(PieceSizes::default, |all| all[index]),
        }
    }

    /// All pieces, in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Piece> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// The pieces with their documents shuffled by `random`. The pieces of a document stay together.
    pub(super) fn shuffled(&self, random: &mut Random, control: &Control) -> Result<Self> {
        let is_first =
            |index: usize| index == 0 || self.get(index).document != self.get(index - 1).document;
        let mut documents =
            collect((0..self.len()).filter(|&index| is_first(index)).map(document_of), control)?;
        random.shuffle(&mut documents, control)?;
        let pieces_from = |first: u32| {
            let first = first as usize;
            let more = (first + 1..self.len()).take_while(move |&index| !is_first(index));
            std::iter::once(first).chain(more).map(|index| self.get(index))
        };
        let mut shuffled = Self::with_capacity(self.len());
        for documents in documents.chunks(TICK) {
            control.tick()?;
            shuffled.extend(documents.iter().copied().flat_map(pieces_from));
        }
        Ok(shuffled)
    }

    /// The columns of the pieces at `indices`.
    pub(super) fn gather(&self, indices: Vec<u32>, control: &Control) -> Result<PieceColumns> {
        let lengths = picked(&self.lengths, &indices, control)?;
        let starts = match &self.starts {
            None => vec![0; indices.len()],
            Some(starts) => picked(starts, &indices, control)?,
        };
        let sizes = self.sizes.as_ref().map(|all| picked(all, &indices, control)).transpose()?;
        let documents =
            self.documents.as_ref().map(|all| picked(all, &indices, control)).transpose()?;
        Ok(PieceColumns { documents: documents.unwrap_or(indices), starts, lengths, sizes })
    }
}

/// The values at `indices`.
fn picked<T: Copy>(of: &[T], indices: &[u32], control: &Control) -> Result<Vec<T>> {
    let mut gathered = Vec::with_capacity(indices.len());
    for indices in indices.chunks(TICK) {
        control.tick()?;
        gathered.extend(indices.iter().map(|&index| of[index as usize]));
    }
    Ok(gathered)
}

impl FromIterator<Piece> for Pieces {
    fn from_iter<I: IntoIterator<Item = Piece>>(pieces: I) -> Self {
        let mut all = Self::default();
        all.extend(pieces);
        all
    }
}

impl Extend<Piece> for Pieces {
    fn extend<I: IntoIterator<Item = Piece>>(&mut self, pieces: I) {
        for piece in pieces {
            self.push(piece);
        }
    }
}

/// The document number of a piece at an index, for whole documents.
fn document_of(index: usize) -> u32 {
    u32::try_from(index).expect("documents are counted by a u32")
}

/// The error for more pieces than a plan can count.
pub(super) fn too_many() -> Error {
    let reason = "is so short that documents are cut into more than 4294967295 pieces; raise it, or pack in parts";
    Error::option("max_length", reason)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Documents in order, some of them missing, some of them in several pieces.
    fn some() -> impl Strategy<Value = Vec<Piece>> {
        let document = (0..3_u32, prop::collection::vec(1..9_u32, 0..4), 0..3_u32);
        prop::collection::vec(document, 0..20).prop_map(|documents| {
            let mut number = 0;
            let mut pieces = Vec::new();
            for (skipped, lengths, first) in documents {
                number += skipped / 2;
                let mut start = first / 2;
                for length in lengths {
                    pieces.push(Piece::new(number, start, length));
                    start += length;
                }
                number += 1;
            }
            pieces
        })
    }

    proptest! {
        #[test]
        fn columns_hold_what_was_pushed(
            pushed in some(),
            picks in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
        ) {
            let pieces: Pieces = pushed.iter().copied().collect();
            prop_assert_eq!(pieces.len(), pushed.len());
            prop_assert_eq!(&pieces.iter().collect::<Vec<_>>(), &pushed);
            let indices: Vec<u32> = picks
                .iter()
                .filter(|_| !pushed.is_empty())
                .map(|pick| document_of(pick.index(pushed.len())))
                .collect();
            let wanted: Vec<Piece> = indices.iter().map(|&index| pushed[index as usize]).collect();
            let gathered = pieces.gather(indices, &Control::default());
            let PieceColumns { documents, starts, lengths, .. } = gathered.expect("nobody cancels");
            let gathered: Vec<Piece> = documents
                .into_iter()
                .zip(starts)
                .zip(lengths)
                .map(|((document, start), length)| Piece::new(document, start, length))
                .collect();
            prop_assert_eq!(gathered, wanted);
        }
    }

    #[test]
    fn whole_documents_are_their_lengths_alone() {
        let whole = (0..9).map(|document| Piece::new(document, 0, 4));
        assert_eq!(whole.collect::<Pieces>(), Pieces::whole(vec![4; 9]));
    }
}
