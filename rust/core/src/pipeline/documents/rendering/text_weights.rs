//! [`TextWeights`]: weights over a text.

use std::ops::Range;

use crate::config::TrainOnEos;
use crate::template::{AssistantTurn, Span};

/// Weights over a text, as ascending and disjoint spans.
#[derive(Debug, Default)]
pub(crate) struct TextWeights {
    pub(crate) spans: Vec<Span>,
}

impl TextWeights {
    /// Gives `range` this weight, overwriting earlier ones.
    pub(crate) fn set(&mut self, range: &Range<usize>, weight: f32) {
        if range.is_empty() {
            return;
        }
        let mut spans = Vec::with_capacity(self.spans.len() + 2);
        for Span { range: old, weight } in self.spans.drain(..) {
            let before = old.start..old.end.min(range.start);
            let after = old.start.max(range.end)..old.end;
            spans.extend([before, after].map(|range| Span { range, weight }));
        }
        spans.push(Span { range: range.clone(), weight });
        spans.retain(|span| !span.range.is_empty() && span.weight > 0.0);
        spans.sort_unstable_by_key(|span| span.range.start);
        self.spans = spans;
    }

    /// The weight at a byte offset.
    pub(crate) fn at(&self, byte: usize) -> f32 {
        let span = self.spans.iter().find(|span| span.range.contains(&byte));
        span.map_or(0.0, |span| span.weight)
    }
}

/// Trains the ends of trained turns: all, only the last, or none; by default as the template marks them.
pub(crate) fn end_turns(
    text_weights: &mut TextWeights,
    turns: &[AssistantTurn],
    eos: Option<TrainOnEos>,
) {
    let Some(eos) = eos else { return };
    let trained: Vec<(&AssistantTurn, f32)> = turns
        .iter()
        .map(|turn| (turn, text_weights.at(turn.span.start)))
        .filter(|(_, weight)| *weight > 0.0)
        .collect();
    for (at, (turn, weight)) in trained.iter().enumerate() {
        let kept = match eos {
            TrainOnEos::Turn => true,
            TrainOnEos::Last => at + 1 == trained.len(),
            TrainOnEos::None => false,
        };
        text_weights.set(&turn.end, if kept { *weight } else { 0.0 });
    }
}
