//! Searches a text for another, one piece at a time.

use memchr::memmem::{self, Finder, FinderRev};

use crate::failure::RenderResult;
use crate::render_limits::{Meter, PIECE};

/// True if `text` contains `part`.
pub(crate) fn contains(text: &str, part: &str, meter: &Meter<'_>) -> RenderResult<bool> {
    if part.len() > text.len() {
        return Ok(false);
    }
    if text.len() <= PIECE {
        meter.characters(text.len() + part.len())?;
        return Ok(memmem::find(text.as_bytes(), part.as_bytes()).is_some());
    }
    Ok(Matches::new(text, part, meter)?.next()?.is_some())
}

/// The offsets of a part in a text, from the left, without overlaps.
pub(crate) struct Matches<'a> {
    text: &'a str,
    finder: Finder<'a>,
    at: usize,
    meter: &'a Meter<'a>,
}

impl<'a> Matches<'a> {
    /// Looks for `part`, which is not empty.
    pub(crate) fn new(text: &'a str, part: &'a str, meter: &'a Meter<'_>) -> RenderResult<Self> {
        meter.characters(part.len())?;
        Ok(Self { text, finder: Finder::new(part.as_bytes()), at: 0, meter })
    }

    /// The offset of the next occurrence.
    pub(crate) fn next(&mut self) -> RenderResult<Option<usize>> {
        let length = self.finder.needle().len();
        loop {
            let end = self.text.len().min(self.at.saturating_add(PIECE.max(2 * length)));
            let window = &self.text.as_bytes()[self.at..end];
            if let Some(found) = self.finder.find(window) {
                self.meter.characters(found + length)?;
                self.meter.items(1)?;
                let found = self.at + found;
                self.at = found + length;
                return Ok(Some(found));
            }
            self.meter.characters(window.len())?;
            if end == self.text.len() {
                self.at = end;
                return Ok(None);
            }
            // A part that begins in this window may end in the next.
            self.at = end + 1 - length;
        }
    }
}

/// The offsets of a part in a text, from the right, without overlaps.
pub(crate) struct MatchesFromRight<'a> {
    text: &'a str,
    finder: FinderRev<'a>,
    end: usize,
    meter: &'a Meter<'a>,
}

impl<'a> MatchesFromRight<'a> {
    /// Looks for `part`, which is not empty.
    pub(crate) fn new(text: &'a str, part: &'a str, meter: &'a Meter<'_>) -> RenderResult<Self> {
        meter.characters(part.len())?;
        let finder = FinderRev::new(part.as_bytes());
        Ok(Self { text, finder, end: text.len(), meter })
    }

    /// The offset of the next occurrence.
    pub(crate) fn next(&mut self) -> RenderResult<Option<usize>> {
        let length = self.finder.needle().len();
        loop {
            let start = self.end.saturating_sub(PIECE.max(2 * length));
            let window = &self.text.as_bytes()[start..self.end];
            if let Some(found) = self.finder.rfind(window) {
                self.meter.characters(window.len() - found)?;
                self.meter.items(1)?;
                self.end = start + found;
                return Ok(Some(self.end));
            }
            self.meter.characters(window.len())?;
            if start == 0 {
                self.end = 0;
                return Ok(None);
            }
            self.end = start + length - 1;
        }
    }
}
