//! [`DocumentCutter`]: cuts documents into the pieces that are packed, and reports the rest of each.

use std::ops::Range;

use crate::config::{Options, Overlong, PackOptions, PictureSizes, Side};
use crate::document::{Document, INPUTS};
use crate::error::Error;
use crate::objective::{Objective, RowLimits, RowPart};
use crate::pack::{OverlongCut, Piece, PieceSizes, Stretches, cut};
use crate::pipeline::rows::weight_column::require_weight_column;
use crate::report::ledger::Reason;
use crate::util::message::counted;

/// The tokens of a document that are packed and cut off, and the reason if it is dropped.
#[derive(Clone, Copy)]
pub(in crate::pipeline) struct CutResult {
    /// Its tokens.
    pub(in crate::pipeline) length: u32,
    /// The tokens of its packed pieces.
    pub(in crate::pipeline) kept: u32,
    /// The tokens that were cut off.
    pub(in crate::pipeline) truncated: u32,
    /// The reason for dropping it, if it is dropped.
    pub(in crate::pipeline) dropped: Option<Reason>,
}

/// Cuts documents into pieces, as options and objective say.
#[derive(Clone, Copy)]
pub(crate) struct DocumentCutter<'a> {
    pub(crate) options: &'a Options,
    pub(crate) objective: &'a dyn Objective,
    /// The number of the copy of the documents.
    pub(crate) copy: u64,
}

impl DocumentCutter<'_> {
    /// Appends the pieces of a document that are packed, under the document number `number`.
    pub(in crate::pipeline) fn cut(
        self,
        document: Document<'_>,
        number: u32,
        pieces: &mut impl Extend<Piece>,
    ) -> crate::Result<CutResult> {
        require_weight_column(document, self.options)?;
        let length = document.column(INPUTS).len();
        let length = u32::try_from(length).expect("documents are made of fewer tokens");
        let dropped = |reason| CutResult { length, kept: 0, truncated: 0, dropped: Some(reason) };
        let key = self.key(document);
        let limits = RowLimits::of(&self.options.rows.packing);
        let longest = |start| self.objective.longest(document, start, key, limits);
        let cut = match longest(0) {
            Some(most) => {
                let longest = |start| longest(start).unwrap_or(0);
                self.cut_by_size(document, length, most, longest).map(|listed| (None, listed))
            }
            None => match self.cut_around_pictures(document, length) {
                Some(cut) => cut.map(|listed| (None, listed)),
                None => self.cut_evenly(document, length).map(|even| (Some(even), Vec::new())),
            },
        };
        let (even, listed) = match cut {
            Ok(stretches) => stretches,
            Err(UncutReason::Dropped) => {
                let packing = &self.options.rows.packing;
                let fits = length <= packing.row_limit().get() && packing.limits_pictures();
                let many = fits && document.pictures().next().is_some();
                return Ok(dropped(if many { Reason::TooManyPictures } else { Reason::TooLong }));
            }
            Err(UncutReason::Refused) => {
                let whole = RowPart { document, start: 0, length, first: 0 };
                let size = self.objective.size(whole, key);
                return Err(self.too_long(document, size.map_or(length, |size| size.tokens)));
            }
        };
        let (mut kept, mut packed) = (0, 0);
        for (start, length) in even.into_iter().flatten().chain(listed) {
            packed += length;
            let part = RowPart { document, start, length, first: start };
            if self.objective.learns(part) {
                pieces.extend([Piece {
                    document: number,
                    start,
                    length,
                    sizes: self.sizes_of(part, key),
                }]);
                kept += length;
            }
        }
        if kept == 0 {
            return Ok(dropped(Reason::NoTrainedToken));
        }
        Ok(CutResult { length, kept, truncated: length - packed, dropped: None })
    }

    /// A part of a document as a piece.
    pub(crate) fn piece(self, document: Document<'_>, name: u32, start: u32, length: u32) -> Piece {
        let part = RowPart { document, start, length, first: start };
        Piece { document: name, start, length, sizes: self.sizes_of(part, self.key(document)) }
    }

    /// The key of the random numbers of a document; 0 where there are none.
    fn key(self, document: Document<'_>) -> u64 {
        let seed = self.options.rows.packing.seed;
        if self.objective.is_random() { document.key(seed, self.copy) } else { 0 }
    }

    fn sizes_of(self, part: RowPart<'_>, key: u64) -> PieceSizes {
        let size = self.objective.size(part, key);
        let (tokens, targets) = size.map_or((0, 0), |size| (size.tokens, size.targets));
        let pictures = if self.options.rows.packing.limits_pictures() {
            pictures_in(&part)
        } else {
            PictureSizes::default()
        };
        PieceSizes { tokens, targets, pictures, key }
    }

    /// The stretches of a document, for objectives that do not change the size of a piece.
    fn cut_evenly(self, document: Document<'_>, length: u32) -> Result<Stretches, UncutReason> {
        let usual = Overlong::usual(document.is_text());
        match cut(length, document.turn_ends(), &self.options.rows.packing, usual) {
            OverlongCut::Into(stretches) => Ok(stretches),
            OverlongCut::Drop => Err(UncutReason::Dropped),
            OverlongCut::Refuse => Err(UncutReason::Refused),
        }
    }

    /// The stretches of a document with pictures that is longer than a row; none of them cuts a picture. `None` if it fits a row or
    /// has no pictures.
    fn cut_around_pictures(
        self,
        document: Document<'_>,
        length: u32,
    ) -> Option<Result<Vec<(u32, u32)>, UncutReason>> {
        let packing = &self.options.rows.packing;
        let most = packing.row_limit().get();
        let pictures = self.uncut_pictures(document);
        let whole = PictureStretch { pictures: &pictures, length, packing };
        if pictures.is_empty() || length <= most && whole.end(0) == length {
            return None;
        }
        let mut stretches = Vec::new();
        match (
            packing.overlong.unwrap_or(Overlong::usual(document.is_text())),
            packing.truncation_side,
        ) {
            (Overlong::Truncate, Side::Right) => stretches.push((0, whole.end(0))),
            (Overlong::Truncate, Side::Left) => {
                let start = whole.start();
                stretches.push((start, length - start));
            }
            (Overlong::Split, _) => {
                let mut start = 0;
                while start < length {
                    let end = whole.end(start);
                    if end <= start {
                        return Some(Err(UncutReason::Dropped));
                    }
                    stretches.push((start, end - start));
                    start = end;
                }
            }
            (Overlong::Trim, _) => {
                let end = whole.end(0);
                let ends = document.turn_ends().iter().filter(|at| (1..=end).contains(*at));
                stretches.extend(ends.max().map(|end| (0, *end)));
            }
            (Overlong::Drop, _) => return Some(Err(UncutReason::Dropped)),
            (Overlong::Error, _) => return Some(Err(UncutReason::Refused)),
        }
        stretches.retain(|(_, tokens)| *tokens > 0);
        Some(if stretches.is_empty() { Err(UncutReason::Dropped) } else { Ok(stretches) })
    }

    /// The pictures of a document between which it may be cut. If the tokens of a picture depend on the number of pictures, all of
    /// them are one that is never cut.
    fn uncut_pictures(self, document: Document<'_>) -> Vec<UncutPictures> {
        let each = document.pictures().map(|picture| UncutPictures::of(picture.tokens));
        let images = self.options.tokens.images.as_ref();
        if images.is_some_and(|images| images.depends_on_number) {
            each.reduce(|some, others| some.with(&others)).into_iter().collect()
        } else {
            each.collect()
        }
    }

    /// The stretches of a document whose parts the objective resizes: each the `longest` that a row can hold; the first
    /// has at most `most` tokens.
    fn cut_by_size(
        self,
        document: Document<'_>,
        length: u32,
        most: u32,
        longest: impl Fn(u32) -> u32,
    ) -> Result<Vec<(u32, u32)>, UncutReason> {
        if most >= length {
            return Ok(vec![(0, length)]);
        }
        match self.options.rows.packing.overlong.unwrap_or(Overlong::usual(document.is_text())) {
            Overlong::Error => Err(UncutReason::Refused),
            Overlong::Truncate if most > 0 => Ok(vec![(0, most)]),
            Overlong::Trim => {
                let ends = document.turn_ends().iter().rev();
                let end = ends.copied().find(|end| (1..=most).contains(end));
                end.map(|end| vec![(0, end)]).ok_or(UncutReason::Dropped)
            }
            Overlong::Split if most > 0 => {
                let (mut start, mut stretches) = (0, Vec::new());
                while start < length {
                    let part = longest(start).min(length - start);
                    if part == 0 {
                        break;
                    }
                    stretches.push((start, part));
                    start += part;
                }
                Ok(stretches)
            }
            Overlong::Drop | Overlong::Truncate | Overlong::Split => Err(UncutReason::Dropped),
        }
    }

    /// The error for a document that is longer than a row.
    fn too_long(self, document: Document<'_>, length: u32) -> Error {
        let most = self.options.rows.packing.row_limit().get();
        let message = if length > most {
            format!(
                "the document has {length} tokens, more than the {most} of `max_length`; `overlong` says what else to do"
            )
        } else {
            let whole = RowPart { document, start: 0, length, first: 0 };
            let PictureSizes { pictures, tokens } = pictures_in(&whole);
            format!(
                "the document has {} of {tokens} tokens, more than `reading.images` allows in a row; `overlong` says what \
                 else to do",
                counted(u64::from(pictures), "picture")
            )
        };
        Error::Record { origin: document.origin(), reason: Reason::TooLong, message }
    }
}

/// The pictures of a part of a document.
fn pictures_in(part: &RowPart<'_>) -> PictureSizes {
    let pictures = part.document.pictures_in(part.start..part.start + part.length);
    let sizes = pictures.map(|picture| UncutPictures::of(picture.tokens).sizes);
    sizes.fold(PictureSizes::default(), both)
}

fn both(some: PictureSizes, others: PictureSizes) -> PictureSizes {
    PictureSizes { pictures: some.pictures + others.pictures, tokens: some.tokens + others.tokens }
}

/// Pictures of a document between which no cut falls.
struct UncutPictures {
    /// Their tokens, with those between them.
    tokens: Range<u32>,
    sizes: PictureSizes,
}

impl UncutPictures {
    /// One picture.
    fn of(tokens: Range<u32>) -> Self {
        let sizes = PictureSizes { pictures: 1, tokens: tokens.end - tokens.start };
        Self { tokens, sizes }
    }

    /// These pictures with those behind them.
    fn with(self, others: &Self) -> Self {
        Self { tokens: self.tokens.start..others.tokens.end, sizes: both(self.sizes, others.sizes) }
    }
}

/// A document with pictures, to be cut between them.
struct PictureStretch<'a> {
    /// The pictures in their order.
    pictures: &'a [UncutPictures],
    length: u32,
    packing: &'a PackOptions,
}

impl PictureStretch<'_> {
    /// The last possible end of a row that begins at `start`.
    fn end(&self, start: u32) -> u32 {
        let end = self.length.min(start.saturating_add(self.packing.row_limit().get()));
        let mut sizes = PictureSizes::default();
        let behind = self.pictures.iter().filter(|pictures| pictures.tokens.start >= start);
        for UncutPictures { tokens, sizes: these } in behind {
            if tokens.start >= end {
                break;
            }
            sizes = both(sizes, *these);
            if tokens.end > end || !self.packing.holds_pictures(sizes) {
                return tokens.start;
            }
        }
        end
    }

    /// The first possible start of a row that goes to the end of the document.
    fn start(&self) -> u32 {
        let start = self.length.saturating_sub(self.packing.row_limit().get());
        let mut sizes = PictureSizes::default();
        for UncutPictures { tokens, sizes: these } in self.pictures.iter().rev() {
            if tokens.end <= start {
                break;
            }
            sizes = both(sizes, *these);
            if tokens.start < start || !self.packing.holds_pictures(sizes) {
                return tokens.end;
            }
        }
        start
    }
}

/// The reason that a document longer than a row is not cut.
enum UncutReason {
    /// It is dropped, and counted.
    Dropped,
    /// The run fails.
    Refused,
}
