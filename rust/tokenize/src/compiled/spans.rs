//! Which tokens the spans of a text touch, found while the ids are made.

use std::ops::Range;

/// A token's position in the ids, and which bytes of the text it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    position: usize,
    range: Range<usize>,
    /// Whether it is [put before](Watch::before) what it comes from.
    before: bool,
}

/// What the encoder notes about source ranges.
pub(crate) enum Watch {
    /// Nothing: there are no spans.
    Nothing,
    /// The tokens that hold certain bytes: enough while the tokens tile the text in order.
    Bytes {
        /// For each span that is not empty, its first and its last byte, ascending, and the span's index.
        queries: Vec<(usize, usize)>,
        /// How many of them are answered.
        answered: usize,
        /// For each span, the positions of the first and behind the last token that holds a queried byte.
        found: Vec<Option<(usize, usize)>>,
    },
    /// The source range of every token: they do not tile the text in order.
    Sources {
        /// The tokens that come from some text.
        list: Vec<Source>,
        /// Whether letters and marks were joined, so that ranges have to be mended.
        joined: bool,
    },
}

impl Watch {
    /// What to note for `spans`, ascending and disjoint byte ranges of `text`.
    pub(crate) fn new(text: &str, spans: &[Range<usize>]) -> Self {
        let mut queries = Vec::with_capacity(spans.len() * 2);
        for (index, span) in spans.iter().enumerate() {
            if let Some(span) = whole_characters(text, span) {
                queries.extend([(span.start, index), (span.end - 1, index)]);
            }
        }
        queries.sort_unstable();
        Self::Bytes { queries, answered: 0, found: vec![None; spans.len()] }
    }

    /// Starts anew, noting every token.
    pub(crate) fn all(joined: bool) -> Self {
        Self::Sources { list: Vec::new(), joined }
    }

    /// Whether source ranges must be told one by one.
    pub(crate) fn wants_sources(&self) -> bool {
        matches!(self, Self::Sources { .. })
    }

    /// The byte from which on [`Self::token`] must be called.
    #[inline]
    pub(crate) fn next(&self) -> usize {
        match self {
            Self::Nothing => usize::MAX,
            Self::Bytes { queries, answered, .. } => {
                queries.get(*answered).map_or(usize::MAX, |query| query.0)
            }
            Self::Sources { .. } => 0,
        }
    }

    /// Notes a token; tokens come in order.
    pub(crate) fn token(&mut self, position: usize, range: Range<usize>) {
        match self {
            Self::Nothing => {}
            Self::Bytes { queries, answered, found } => {
                while let Some((byte, span)) = queries.get(*answered) {
                    if *byte >= range.end {
                        break;
                    }
                    let first = found[*span].map_or(position, |found| found.0);
                    found[*span] = Some((first, position + 1));
                    *answered += 1;
                }
            }
            Self::Sources { list, .. } => {
                if range.start < range.end {
                    list.push(Source { position, range, before: false });
                }
            }
        }
    }

    /// Notes a token that has the source of the character that comes next, and leaves it to the following tokens.
    pub(crate) fn before(&mut self, position: usize, range: Range<usize>) {
        match self {
            Self::Bytes { queries, answered, found } => {
                let near = queries[*answered..].iter().take_while(|query| query.0 < range.end);
                for (_, span) in near {
                    found[*span].get_or_insert((position, position + 1));
                }
            }
            Self::Nothing => {}
            Self::Sources { list, .. } => {
                if range.start < range.end {
                    list.push(Source { position, range, before: true });
                }
            }
        }
    }

    /// What was noted of every token, if that was wanted.
    pub(crate) fn into_sources(self) -> Vec<Source> {
        match self {
            Self::Sources { list, .. } => list,
            Self::Nothing | Self::Bytes { .. } => Vec::new(),
        }
    }

    /// Notes tokens that were noted elsewhere, so many positions and bytes further on.
    pub(crate) fn again(&mut self, sources: &[Source], positions: usize, bytes: usize) {
        for Source { position, range, before } in sources {
            let (position, range) = (position + positions, range.start + bytes..range.end + bytes);
            if *before {
                self.before(position, range);
            } else {
                self.token(position, range);
            }
        }
    }

    /// Appends the range of positions that each span touches; `end` is where an empty one is put.
    pub(crate) fn finish(
        self,
        text: &str,
        spans: &[Range<usize>],
        end: usize,
        touched: &mut Vec<Range<usize>>,
    ) {
        match self {
            Self::Nothing => {}
            Self::Bytes { found, .. } => touched.extend(
                found.iter().map(|found| found.map_or(end..end, |(first, last)| first..last)),
            ),
            Self::Sources { mut list, joined } => {
                if joined {
                    mend(&mut list, text);
                }
                overlaps(&list, text, spans, end, touched);
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
