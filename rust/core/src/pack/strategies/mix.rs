//! The longest first, then others at random, then the pieces that fill the row to the last token.
//!
//! Long pieces cannot be left for last. Random pieces keep a row from holding pieces of one length only.
//! A piece or a pair of exactly the missing length closes a row that is nearly full. This reaches the lower
//! bound on most real lengths, but can be worse on hostile ones. So the rows of first-fit decreasing are
//! counted too, and taken if they are fewer.

use std::collections::BTreeMap;

use super::first_fit::{LengthPatterns, fewer_rows};
use super::length_counts::{CountTable, CountTree, LengthCounts};
use crate::config::PackOptions;
use crate::error::Result;
use crate::pack::bound::lower_bound;
use crate::pack::cancel_checks::TICK;
use crate::pack::cancellable_sort::{histogram, longest_first, table_pays};
use crate::pack::row_members::RowMembers;
use crate::util::control::Control;
use crate::util::random::Random;

/// Pieces are drawn at random until the room left is below the mean length, or below this part of a row.
const CLOSING_PART: u32 = 4;

/// Draws that are made at once: enough to wait for memory only once, few enough for the first-level cache.
const AHEAD: usize = 256;

pub(crate) fn pack(
    lengths: &[u32],
    options: &PackOptions,
    control: &Control,
) -> Result<RowMembers> {
    if lengths.is_empty() {
        control.tick()?;
        return Ok(RowMembers::with_capacity(0));
    }
    let histogram = histogram(lengths, control)?;
    let max = options.row_limit().get();
    let mut random = Random::new(options.seed);
    let shapes = if table_pays(max, lengths.len()) {
        let counts = CountTable::new(&histogram, max);
        shapes(lengths, &histogram, counts, options, &mut random, control)?
    } else {
        let counts = CountTree::new(&histogram);
        shapes(lengths, &histogram, counts, options, &mut random, control)?
    };
    let mut dealer = ShuffledPieces::new(lengths, &histogram, &mut random, control)?;
    let RowLengths { lengths: mut members, ends } = shapes;
    for chunk in members.chunks_mut(TICK) {
        control.tick()?;
        for member in chunk {
            *member = dealer.deal(*member);
        }
    }
    Ok(RowMembers::new(members, ends))
}

/// Rows as lengths. Their pieces are chosen later.
struct RowLengths {
    lengths: Vec<u32>,
    ends: Vec<u32>,
}

impl RowLengths {
    fn with_capacity(pieces: usize) -> Self {
        Self { lengths: Vec::with_capacity(pieces), ends: vec![0] }
    }

    fn close(&mut self) {
        self.ends.push(u32::try_from(self.lengths.len()).expect("pieces are counted by a u32"));
    }

    fn rows(&self) -> usize {
        self.ends.len() - 1
    }

    fn of(patterns: &LengthPatterns, pieces: usize, control: &Control) -> Result<Self> {
        let mut shapes = Self::with_capacity(pieces);
        for (number, row) in patterns.rows().enumerate() {
            if number.is_multiple_of(TICK) {
                control.tick()?;
            }
            shapes.lengths.extend(row);
            shapes.close();
        }
        Ok(shapes)
    }
}

/// The mixed rows, or those of first-fit decreasing if they are fewer.
fn shapes(
    lengths: &[u32],
    histogram: &[(u32, u64)],
    counts: impl LengthCounts + Clone,
    options: &PackOptions,
    random: &mut Random,
    control: &Control,
) -> Result<RowLengths> {
    let mixed = RowMixer::new(lengths, histogram, counts.clone(), options, random).rows(control)?;
    let fewer = if mixed.rows() as u64 > lower_bound(histogram, options) {
        fewer_rows(counts, options, mixed.rows(), control)?
    } else {
        None
    };
    fewer.map_or(Ok(mixed), |patterns| RowLengths::of(&patterns, lengths.len(), control))
}

/// Makes the mixed rows.
struct RowMixer<'a, S> {
    lengths: &'a [u32],
    counts: S,
    random: &'a mut Random,
    max_length: u32,
    most_documents: u32,
    /// The length of the shortest piece.
    shortest: u32,
    /// The tokens of each row that random drawing leaves free.
    margin: u32,
    /// The remaining draws, at most one for each piece: later draws more and more often hit a length that is
    /// used up.
    draws: usize,
    drawn: Vec<u32>,
    shapes: RowLengths,
}

/// The row that is being filled.
struct MixRow {
    space: u32,
    documents: u32,
}

impl<'a, S: LengthCounts> RowMixer<'a, S> {
    fn new(
        lengths: &'a [u32],
        histogram: &[(u32, u64)],
        counts: S,
        options: &PackOptions,
        random: &'a mut Random,
    ) -> Self {
        let max_length = options.row_limit().get();
        let tokens: u64 = histogram.iter().map(|&(length, count)| u64::from(length) * count).sum();
        let mean = tokens.div_ceil(lengths.len().max(1) as u64);
        let mean = u32::try_from(mean).expect("a mean is at most the longest");
        Self {
            lengths,
            counts,
            random,
            max_length,
            most_documents: options.most_documents(),
            shortest: histogram.first().map_or(1, |&(length, _)| length),
            margin: mean.min(max_length / CLOSING_PART),
            draws: lengths.len(),
            drawn: Vec::with_capacity(AHEAD),
            shapes: RowLengths::with_capacity(lengths.len()),
        }
    }

    fn rows(mut self, control: &Control) -> Result<RowLengths> {
        let (mut next_look, mut most) = (0, self.max_length);
        while let Some(longest) = self.counts.at_most(most) {
            most = longest;
            let mut row = MixRow { space: self.max_length, documents: 0 };
            self.take(&mut row, longest);
            self.draw(&mut row);
            self.fill(&mut row);
            self.shapes.close();
            if self.shapes.lengths.len() >= next_look {
                control.tick()?;
                next_look = self.shapes.lengths.len() + TICK;
            }
        }
        Ok(self.shapes)
    }

    fn take(&mut self, row: &mut MixRow, length: u32) {
        self.counts.take(length, 1);
        self.shapes.lengths.push(length);
        row.space -= length;
        row.documents += 1;
    }

    /// Draws pieces at random until the next would leave less than the margin.
    /// A length is drawn with the frequency of its pieces at the start. A draw of a length that is used up
    /// has no effect.
    fn draw(&mut self, row: &mut MixRow) {
        while row.documents + 1 < self.most_documents && row.space > self.margin {
            if self.drawn.is_empty() {
                self.refill();
            }
            let Some(length) = self.drawn.pop() else { return };
            if length > row.space - self.margin {
                return;
            }
            if self.counts.count(length) > 0 {
                self.take(row, length);
            }
        }
    }

    /// Makes draws in advance, so that lengths far apart in memory are read at once instead of between
    /// decisions.
    fn refill(&mut self) {
        let pieces = u32::try_from(self.lengths.len()).expect("pieces are counted by a u32");
        let now = self.draws.min(AHEAD);
        self.draws -= now;
        let lengths = (0..now).map(|_| self.lengths[self.random.below(pieces) as usize]);
        self.drawn.extend(lengths);
    }

    /// Fills the rest of a row, exactly if one or two pieces can.
    fn fill(&mut self, row: &mut MixRow) {
        while row.space >= self.shortest && row.documents < self.most_documents {
            let Some(longest) = self.counts.at_most(row.space) else { return };
            let two = longest < row.space && row.documents + 1 < self.most_documents;
            if let Some((longer, shorter)) = two.then(|| self.counts.pair(row.space)).flatten() {
                self.take(row, longer);
                self.take(row, shorter);
            } else {
                self.take(row, longest);
            }
        }
    }
}

/// Deals the pieces of each length in random order.
struct ShuffledPieces {
    /// All pieces, by length.
    pieces: Vec<u32>,
    next: NextPieces,
}

/// The next piece of each length.
enum NextPieces {
    Table(Vec<u32>),
    Tree(BTreeMap<u32, u32>),
}

impl ShuffledPieces {
    fn new(
        lengths: &[u32],
        histogram: &[(u32, u64)],
        random: &mut Random,
        control: &Control,
    ) -> Result<Self> {
        let longest = histogram.last().map_or(0, |&(length, _)| length);
        let mut next = if table_pays(longest, lengths.len()) {
            NextPieces::Table(vec![0; longest as usize + 1])
        } else {
            NextPieces::Tree(BTreeMap::new())
        };
        let mut pieces = longest_first(lengths, histogram, control)?;
        let mut first = 0;
        for &(length, count) in histogram.iter().rev() {
            control.tick()?;
            let count = u32::try_from(count).expect("pieces are counted by a u32");
            random.shuffle(&mut pieces[first as usize..][..count as usize], control)?;
            match &mut next {
                NextPieces::Table(table) => table[length as usize] = first,
                NextPieces::Tree(tree) => _ = tree.insert(length, first),
            }
            first += count;
        }
        Ok(Self { pieces, next })
    }

    fn deal(&mut self, length: u32) -> u32 {
        let next = match &mut self.next {
            NextPieces::Table(table) => &mut table[length as usize],
            NextPieces::Tree(tree) => {
                tree.get_mut(&length).expect("only lengths of pieces are dealt")
            }
        };
        *next += 1;
        self.pieces[*next as usize - 1]
    }
}
