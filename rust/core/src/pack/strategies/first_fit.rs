//! First-fit decreasing on lengths alone. `mix` uses its rows if there are fewer of them.
//!
//! Its first row receives, in order, the longest piece that still fits, and each later row does the same with
//! the remaining pieces. So rows are made one by one from the number of pieces of each length, and a row that
//! can be repeated is made as often as possible at once.

use super::length_counts::LengthCounts;
use crate::config::PackOptions;
use crate::error::Result;
use crate::pack::cancel_checks::TICK;
use crate::util::control::Control;

/// Rows as lengths. Equal rows are stored once, as a pattern with a count.
#[derive(Default)]
pub(crate) struct LengthPatterns {
    /// A length, and the number of pieces with it in a row.
    parts: Vec<(u32, u32)>,
    /// The end of a pattern's parts, and the number of rows with this pattern.
    patterns: Vec<(usize, u32)>,
}

impl LengthPatterns {
    /// The lengths of the pieces of each row.
    pub(crate) fn rows(&self) -> impl Iterator<Item = impl Iterator<Item = u32> + '_> + '_ {
        let starts = std::iter::once(0).chain(self.patterns.iter().map(|&(end, _)| end));
        starts.zip(&self.patterns).flat_map(move |(start, &(end, rows))| {
            (0..rows).map(move |_| {
                let parts = self.parts[start..end].iter();
                parts.flat_map(|&(length, pieces)| (0..pieces).map(move |_| length))
            })
        })
    }
}

/// The rows of first-fit decreasing; `None` if there are `fewer_than` or more.
pub(crate) fn fewer_rows(
    mut counts: impl LengthCounts,
    options: &PackOptions,
    fewer_than: usize,
    control: &Control,
) -> Result<Option<LengthPatterns>> {
    let (max, most) = (options.row_limit().get(), options.most_documents());
    let mut found = LengthPatterns::default();
    let mut rows = 0;
    while let Some(longest) = counts.at_most(max) {
        let start = found.parts.len();
        let (mut space, mut documents) = (max, 0);
        let mut again = u32::MAX;
        let mut next = Some(longest);
        while let Some(length) = next {
            let count = counts.count(length);
            let pieces = count.min(space / length).min(most - documents);
            found.parts.push((length, pieces));
            again = again.min(count / pieces);
            space -= length * pieces;
            documents += pieces;
            let shorter = space.min(length - 1);
            next = (documents < most).then(|| counts.at_most(shorter)).flatten();
        }
        for &(length, pieces) in &found.parts[start..] {
            counts.take(length, pieces * again);
        }
        rows += again as usize;
        if rows >= fewer_than {
            return Ok(None);
        }
        found.patterns.push((found.parts.len(), again));
        if found.patterns.len() % TICK == 0 {
            control.tick()?;
        }
    }
    Ok(Some(found))
}
