//! Which tokens the spans of a text touch, found while the ids are made.

use std::ops::Range;

/// A token's position in the ids, and which bytes of the text it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    position: usize,
    range: Range<usize>,
}

/// What the encoder notes about source ranges.
pub(crate) enum Watch {
    /// Nothing: there are no spans.
    Nothing,
    /// Where the spans begin and end among the tokens: enough while source ranges ascend.
    Bounds(Bounds),
    /// Nothing any more: source ranges do not ascend, or are not known.
    Lost,
    /// The source range of every token.
    Sources {
        /// The tokens that come from some text.
        list: Vec<Source>,
        /// Whether letters and marks were joined, so that ranges have to be mended.
        joined: bool,
    },
}

/// The tokens of spans, as far as they have come.
pub(crate) struct Bounds {
    /// The spans that are not empty in whole characters, ascending, and their indices.
    spans: Vec<(Range<usize>, usize)>,
    /// Of how many of them the first token is known.
    begun: usize,
    /// Behind how many of them a token has begun.
    ended: usize,
    /// For each index the positions of the tokens; of those that have not ended, only where they begin.
    found: Vec<Option<Range<usize>>>,
    /// The source range of the token before.
    last: Range<usize>,
}

impl Bounds {
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

    /// The byte behind which a token is of interest.
    #[inline]
    fn next(&self) -> usize {
        let begins = self.spans.get(self.begun).map_or(usize::MAX, |(span, _)| span.start);
        // Two spans that share a character both have it.
        self.spans[self.ended..self.begun].first().map_or(begins, |(span, _)| begins.min(span.end))
    }

    /// Notes a token; false if its source range goes back.
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

    /// Says that the tokens of a span, if it has any, end before `position`.
    fn end(&mut self, index: usize, position: usize) {
        if let Some(found) = &mut self.found[index] {
            found.end = position;
        }
    }

    /// The positions of the tokens that each span touches, where `end` is behind the last token of the text.
    fn finish(mut self, end: usize) -> Vec<Option<Range<usize>>> {
        for at in self.ended..self.begun {
            self.end(self.spans[at].1, end);
        }
        self.found
    }
}

impl Watch {
    /// What to note for `spans`, ascending and disjoint byte ranges of `text`.
    pub(crate) fn new(text: &str, spans: &[Range<usize>]) -> Self {
        Self::Bounds(Bounds::new(text, spans))
    }

    /// Starts anew, noting every token.
    pub(crate) fn all(joined: bool) -> Self {
        Self::Sources { list: Vec::new(), joined }
    }

    /// Whether source ranges must be told one by one.
    pub(crate) fn wants_sources(&self) -> bool {
        matches!(self, Self::Sources { .. })
    }

    /// Whether all must be done again with a watch on [every token](Self::all).
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Self::Lost)
    }

    /// Says that where tokens come from is not known, which matters if something of it was still to be told.
    pub(crate) fn lose(&mut self) {
        if self.next() != usize::MAX {
            *self = Self::Lost;
        }
    }

    /// The byte behind which [`Self::token`] must be called.
    #[inline]
    pub(crate) fn next(&self) -> usize {
        match self {
            Self::Nothing | Self::Lost => usize::MAX,
            Self::Bounds(bounds) => bounds.next(),
            Self::Sources { .. } => 0,
        }
    }

    /// Notes a token that comes from some text; tokens come in order, their source ranges need not.
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
            Self::Sources { list, .. } => list.push(Source { position, range }),
        }
    }

    /// What was noted of every token, if that was wanted.
    pub(crate) fn into_sources(self) -> Vec<Source> {
        match self {
            Self::Sources { list, .. } => list,
            Self::Nothing | Self::Bounds(_) | Self::Lost => Vec::new(),
        }
    }

    /// Notes tokens that were noted elsewhere, so many positions and bytes further on.
    pub(crate) fn again(&mut self, sources: &[Source], positions: usize, bytes: usize) {
        for Source { position, range } in sources {
            self.token(position + positions, range.start + bytes..range.end + bytes);
        }
    }

    /// Appends the range of positions that each span touches. The tokens of the text end before `end`; an empty range is
    /// put at `nothing`.
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

/// Gives a composed letter all of its source: `é` is said to come from its `e` alone.
///
/// What follows a token, belongs to no other and is no space, is counted in.
fn mend(sources: &mut [Source], text: &str) {
    let mut following: Option<(Range<usize>, usize)> = None;
    for source in sources.iter_mut().rev() {
        let told = source.range.clone();
        let end = match &following {
            Some((range, end)) if *range == told => *end,
            Some((range, _)) => range.start,
            None => text.len(),
        };
        let gap = text.get(told.end..end).unwrap_or_default();
        if told.end < end && !gap.contains(char::is_whitespace) {
            source.range.end = end;
        }
        following = Some((told, source.range.end));
    }
}

/// The characters that a span has a part of; `None` if it has none.
///
/// Tokens count by whole characters as well: of a part of one, the source is the character.
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
/// Source ranges can go back where marks were reordered, so the bounds are running extremes: what lies before `low`
/// ends too early, what lies behind `high` begins too late, and only the rest is looked at.
fn overlaps(
    sources: &[Source],
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
            |source: &&Source| source.range.start < span.end && span.start < source.range.end;
        let near = sources.get(low..high).unwrap_or_default();
        touched.push(match (near.iter().find(overlaps), near.iter().rfind(overlaps)) {
            (Some(first), Some(last)) => first.position..last.position + 1,
            _ => nothing..nothing,
        });
    }
}
