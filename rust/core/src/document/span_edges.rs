//! [`SpanEdges`]: the tokens of spans and the tokens between places of a text, from one encoding.

use std::ops::Range;

/// The stretches between all ends of spans and all places at which a text may be cut.
///
/// The tokenizer tells which tokens a range of the text touches, for ranges that do not overlap. So the text is
/// given to it as the stretches between those places; a span is several of them.
#[derive(Debug, Default)]
pub(super) struct SpanEdges {
    places: Vec<usize>,
}

impl SpanEdges {
    /// Fills `ranges` with the stretches of a text of `length` bytes.
    pub(super) fn stretches(
        &mut self,
        spans: &[Range<usize>],
        cuts: &[usize],
        length: usize,
        ranges: &mut Vec<Range<usize>>,
    ) {
        self.places.clear();
        self.places.extend([0, length]);
        self.places.extend(spans.iter().flat_map(|span| [span.start, span.end]));
        self.places.extend(cuts);
        self.places.sort_unstable();
        self.places.dedup();
        ranges.clear();
        ranges.extend(self.places.windows(2).map(|edge| edge[0]..edge[1]));
    }

    /// The tokens that a span touches, given those that each stretch touches.
    pub(super) fn touched(&self, span: &Range<usize>, stretches: &[Range<usize>]) -> Range<usize> {
        let inside = &stretches[self.place(span.start)..self.place(span.end)];
        let mut inside = inside.iter().filter(|tokens| !tokens.is_empty());
        match (inside.next(), inside.next_back()) {
            (Some(first), Some(last)) => first.start..last.end,
            (Some(only), None) => only.clone(),
            _ => 0..0,
        }
    }

    /// The number of tokens before a cut; `None` if a token straddles it.
    pub(super) fn tokens_before(&self, cut: usize, stretches: &[Range<usize>]) -> Option<usize> {
        let (before, after) = stretches.split_at(self.place(cut));
        let end = before.iter().rev().find(|tokens| !tokens.is_empty())?.end;
        let start = after.iter().find(|tokens| !tokens.is_empty())?.start;
        (end <= start).then_some(end)
    }

    fn place(&self, at: usize) -> usize {
        self.places.partition_point(|&place| place < at)
    }
}
