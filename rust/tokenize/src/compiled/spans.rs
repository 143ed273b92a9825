//! Finds the tokens that the spans of a text touch, while the ids are made.

use std::ops::Range;

/// The bytes of a stretch, and their source ranges.
#[derive(Clone, Copy)]
pub(crate) struct SourceRanges<'a> {
    /// The source range of each byte, or `None` if the text is its own source.
    pub(crate) sources: Option<&'a [Range<usize>]>,
}

impl SourceRanges<'_> {
    /// The source range of `start..end`, which is not empty.
    pub(super) fn of(self, start: usize, end: usize) -> Range<usize> {
        match self.sources {
            None => start..end,
            Some(sources) => sources[start].start..sources[end - 1].end,
        }
    }
}

/// A token's position in the ids, and its byte range in the text.
#[derive(Clone, Debug)]
pub(crate) struct TokenRange {
    position: usize,
    range: Range<usize>,
}

impl TokenRange {
    pub(super) fn position(&self) -> usize {
        self.position
    }

    pub(super) fn range(&self) -> Range<usize> {
        self.range.clone()
    }
}

/// The source ranges that the encoder records.
pub(crate) enum OffsetTracker {
    /// Nothing is recorded: there are no spans.
    Nothing,
    /// The tokens at the bounds of the spans are recorded; this is enough while source ranges ascend.
    Bounds(SpanBounds),
    /// Nothing is recorded any more: source ranges do not ascend, or are not known.
    Lost,
    /// The source range of every token is recorded.
    Sources {
        /// The tokens that have a source range.
        list: Vec<TokenRange>,
        /// True if the normalizer composes letters and marks, so that source ranges have to be corrected.
        joined: bool,
    },
}

/// The token ranges of the spans, up to the current token.
pub(crate) struct SpanBounds {
    /// The spans, widened to whole characters, without the empty ones; ascending, with their indices.
    spans: Vec<(Range<usize>, usize)>,
    /// The number of spans whose first token has been seen.
    begun: usize,
    /// The number of spans after whose end a token has begun.
    ended: usize,
    /// The token range of each span, by index; the range of a span that has not ended yet has only a valid
    /// start.
    found: Vec<Option<Range<usize>>>,
    /// The source range of the previous token.
    last: Range<usize>,
}

impl SpanBounds {
    fn new(text: &str, spans: &[Range<usize>]) -> Self {
        let whole = (0..)
            .zip(spans)
            .filter_map(|(index, span)| whole_characters(text, span).map(|span| (span, index)));
        Self {
            spans: whole.collect(),
            begun: 0,
            ended: 0,
            found: vec![None; spans.len()],
            last: 0..0,
        }
    }

    /// The byte after which the next relevant token ends.
    #[inline]
    fn next(&self) -> usize {
        let next_start = self.spans.get(self.begun).map_or(usize::MAX, |(span, _)| span.start);
        // If two spans share a character, both contain it.
        self.spans[self.ended..self.begun]
            .first()
            .map_or(next_start, |(span, _)| next_start.min(span.end))
    }

    /// Records a token; returns `false` if its source range goes back.
    fn token(&mut self, position: usize, range: Range<usize>) -> bool {
        if range.start < self.last.start || range.end < self.last.end {
            return false;
        }
        while let Some((span, index)) = self.spans.get(self.begun)
            && span.start < range.end
        {
            self.found[*index] = (range.start < span.end).then(|| position..position + 1);
            self.begun += 1;
        }
        while let Some((span, index)) = self.spans[..self.begun].get(self.ended)
            && span.end <= range.start
        {
            self.end(*index, position);
            self.ended += 1;
        }
        self.last = range;
        true
    }

    /// Records that the tokens of a span, if it has any, end before `position`.
    fn end(&mut self, index: usize, position: usize) {
        if let Some(found) = &mut self.found[index] {
            found.end = position;
        }
    }

    /// The token range of each span; `end` is the position after the last token of the text.
    fn finish(mut self, end: usize) -> Vec<Option<Range<usize>>> {
        for at in self.ended..self.begun {
            self.end(self.spans[at].1, end);
        }
        self.found
    }
}

impl OffsetTracker {
    /// A watch for `spans`, which are ascending and disjoint byte ranges of `text`.
    pub(crate) fn new(text: &str, spans: &[Range<usize>]) -> Self {
        Self::Bounds(SpanBounds::new(text, spans))
    }

    /// A watch that records every token.
    pub(crate) fn all(joined: bool) -> Self {
        Self::Sources { list: Vec::new(), joined }
    }

    /// True if source ranges must be told token by token.
    pub(crate) fn wants_sources(&self) -> bool {
        matches!(self, Self::Sources { .. })
    }

    /// True if the text must be encoded again with a watch on [every token](Self::all).
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Self::Lost)
    }

    /// Records that source ranges are not known; this matters only if more tokens were needed.
    pub(crate) fn lose(&mut self) {
        if self.next() != usize::MAX {
            *self = Self::Lost;
        }
    }

    /// The byte after which [`Self::token`] must be called.
    #[inline]
    pub(crate) fn next(&self) -> usize {
        match self {
            Self::Nothing | Self::Lost => usize::MAX,
            Self::Bounds(bounds) => bounds.next(),
            Self::Sources { .. } => 0,
        }
    }

    /// Records a token with its source range. Tokens come in order; their source ranges need not.
    pub(crate) fn token(&mut self, position: usize, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        match self {
            Self::Nothing | Self::Lost => {}
            Self::Bounds(bounds) => {
                if !bounds.token(position, range) {
                    *self = Self::Lost;
                }
            }
            Self::Sources { list, .. } => list.push(TokenRange { position, range }),
        }
    }

    /// The recorded source ranges of all tokens; empty if not every token was recorded.
    pub(crate) fn into_sources(self) -> Vec<TokenRange> {
        match self {
            Self::Sources { list, .. } => list,
            Self::Nothing | Self::Bounds(_) | Self::Lost => Vec::new(),
        }
    }

    /// Records tokens again, shifted by `positions` in the ids and by `bytes` in the text.
    pub(crate) fn again(&mut self, sources: &[TokenRange], positions: usize, bytes: usize) {
        for TokenRange { position, range } in sources {
            self.token(position + positions, range.start + bytes..range.end + bytes);
        }
    }

    /// Appends the token range that each span touches. `end` is the position after the last token of the
    /// text. A span that touches no token gets an empty range at `nothing`.
    pub(crate) fn finish(
        self,
        text: &str,
        spans: &[Range<usize>],
        end: usize,
        nothing: usize,
        touched: &mut Vec<Range<usize>>,
    ) {
        match self {
            Self::Nothing | Self::Lost => {}
            Self::Bounds(bounds) => touched.extend(
                bounds.finish(end).into_iter().map(|found| found.unwrap_or(nothing..nothing)),
            ),
            Self::Sources { mut list, joined } => {
                if joined {
                    mend(&mut list, text);
                }
                overlaps(&list, text, spans, nothing, touched);
            }
        }
    }
}

/// Extends the source range of composed letters: the reference gives `é` the range of its `e` alone.
///
/// The text after a token is added to its range if it belongs to no other token and contains no whitespace.
fn mend(sources: &mut [TokenRange], text: &str) {
    let mut following: Option<(Range<usize>, usize)> = None;
    for source in sources.iter_mut().rev() {
        let reported = source.range.clone();
        let end = match &following {
            Some((range, end)) if *range == reported => *end,
            Some((range, _)) => range.start,
            None => text.len(),
        };
        let gap = text.get(reported.end..end).unwrap_or_default();
        if reported.end < end && !gap.contains(char::is_whitespace) {
            source.range.end = end;
        }
        following = Some((reported, source.range.end));
    }
}

/// The span, widened to whole characters; `None` if it is empty.
///
/// The source range of a token that is a part of a character is the whole character, so spans count by whole
/// characters as well.
fn whole_characters(text: &str, span: &Range<usize>) -> Option<Range<usize>> {
    let (mut start, mut end) = (span.start, span.end.min(text.len()));
    if start >= end {
        return None;
    }
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    while !text.is_char_boundary(end) {
        end += 1;
    }
    Some(start..end)
}

/// Appends, for each span, the positions of the tokens whose source range overlaps it.
///
/// Source ranges can go back where marks were reordered, so the bounds are running extremes: a token before
/// `low` ends too early, a token after `high` begins too late, and only the tokens between them are compared.
fn overlaps(
    sources: &[TokenRange],
    text: &str,
    spans: &[Range<usize>],
    nothing: usize,
    touched: &mut Vec<Range<usize>>,
) {
    let latest_end: Vec<usize> = sources
        .iter()
        .scan(0, |end, source| {
            *end = source.range.end.max(*end);
            Some(*end)
        })
        .collect();
    let mut earliest_start: Vec<usize> = sources
        .iter()
        .rev()
        .scan(usize::MAX, |start, source| {
            *start = source.range.start.min(*start);
            Some(*start)
        })
        .collect();
    earliest_start.reverse();
    for span in spans {
        let Some(span) = whole_characters(text, span) else {
            touched.push(nothing..nothing);
            continue;
        };
        let low = latest_end.partition_point(|end| *end <= span.start);
        let high = earliest_start.partition_point(|start| *start < span.end);
        let overlaps =
            |source: &&TokenRange| source.range.start < span.end && span.start < source.range.end;
        let near = sources.get(low..high).unwrap_or_default();
        touched.push(match (near.iter().find(overlaps), near.iter().rfind(overlaps)) {
            (Some(first), Some(last)) => first.position..last.position + 1,
            _ => nothing..nothing,
        });
    }
}
