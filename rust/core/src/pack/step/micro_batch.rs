//! [`MicroBatch`]: sequences that a rank trains on at once; and the sequences that share one optimizer step.

use super::step_options::StepOptions;
use crate::error::{Error, Result};

/// The most micro-batches of a step that has fewer sequences: beyond it are options that nobody means, and no memory is left.
const MOST_MICRO_BATCHES: usize = 1 << 22;

/// The lengths of all sequences, beside the options.
#[derive(Clone, Copy, Debug)]
pub(super) struct SequenceSizes<'a> {
    pub(super) lengths: &'a [u32],
    pub(super) options: &'a StepOptions,
}

impl SequenceSizes<'_> {
    /// Refuses so many places of all ranks if their micro-batches are too many.
    pub(super) fn check_places(&self, places: usize, option: &'static str) -> Result<()> {
        let most = MOST_MICRO_BATCHES.max(self.lengths.len()) / self.options.rank_count();
        if places <= most {
            return Ok(());
        }
        let reason = format!("makes more than {most} micro-batches of a rank, {places} or more");
        Err(Error::option(option, reason))
    }

    pub(super) fn cost_of_all(&self, sequences: &[u32]) -> f64 {
        sequences.iter().map(|&it| self.cost(it)).sum()
    }

    pub(super) fn cost(&self, sequence: u32) -> f64 {
        self.cost_of(self.length(sequence))
    }

    fn cost_of(&self, length: u32) -> f64 {
        self.options.cost.of(length)
    }

    /// The tokens that a sequence takes in its micro-batch.
    pub(super) fn size(&self, sequence: u32) -> u64 {
        self.size_of(self.length(sequence))
    }

    fn size_of(&self, length: u32) -> u64 {
        u64::from(self.options.packing.room(length))
    }

    pub(super) fn length(&self, sequence: u32) -> u32 {
        self.lengths[sequence as usize]
    }
}

/// Sequences that a rank trains on at once.
#[derive(Clone, Debug, Default)]
pub(super) struct MicroBatch {
    pub(super) members: Vec<u32>,
    pub(super) tokens: u64,
    pub(super) cost: f64,
}

impl MicroBatch {
    pub(super) fn push(&mut self, sequence: u32, sizes: SequenceSizes<'_>) {
        self.members.push(sequence);
        self.tokens += sizes.size(sequence);
        self.cost += sizes.cost(sequence);
    }

    /// The tokens that it still takes; `None` if it takes no more sequences.
    pub(super) fn room(&self, options: &StepOptions) -> Option<u64> {
        let most = options.packing.most_documents() as usize;
        (self.members.len() < most).then(|| options.budget() - self.tokens)
    }

    /// Counts its tokens and its cost anew: sums of exchanges would carry their rounding.
    fn recount(&mut self, sizes: SequenceSizes<'_>) {
        self.tokens = self.members.iter().map(|&it| sizes.size(it)).sum();
        self.cost = self.members.iter().map(|&it| sizes.cost(it)).sum();
    }
}

/// The cost that is to move from one micro-batch to another: as near to `wanted` as can be, more than 0 and at most `most`.
#[derive(Clone, Copy, Debug)]
pub(super) struct CostToMove {
    pub(super) wanted: f64,
    pub(super) most: f64,
}

/// A sequence of one micro-batch that goes to another, and the one that comes back, if one does, by their places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    pub(super) sent: usize,
    pub(super) taken: Option<usize>,
}

impl Exchange {
    /// The exchange of `from` with `to` that moves such a cost, if there is one.
    pub(super) fn find(
        from: &MicroBatch,
        to: &MicroBatch,
        CostToMove { wanted, most }: CostToMove,
        sizes: SequenceSizes<'_>,
    ) -> Option<Self> {
        let free = sizes.options.budget() - to.tokens;
        let takes_more = to.room(sizes.options).is_some();
        // Sizes and costs grow with the length, so the sequences that may come back for one are a range of these.
        let mut ascending: Vec<(u32, usize)> =
            to.members.iter().map(|&it| sizes.length(it)).zip(0..).collect();
        ascending.sort_unstable();
        let mut found = None;
        let mut nearest = f64::INFINITY;
        let mut weigh = |moved: f64, exchange: Self| {
            let distance = (moved - wanted).abs();
            if moved > 0.0 && moved <= most && distance < nearest {
                nearest = distance;
                found = Some(exchange);
            }
        };
        for (sent, &gives) in from.members.iter().enumerate() {
            let (size, cost) = (sizes.size(gives), sizes.cost(gives));
            if takes_more && size <= free {
                weigh(cost, Self { sent, taken: None });
            }
            // The sequences given back are no longer than those taken, so `from` has room for them; and not much shorter, so `to`
            // has.
            let first = ascending.partition_point(|&(length, _)| {
                sizes.size_of(length) + free < size || sizes.cost_of(length) < cost - most
            });
            let cheaper = &ascending[first..];
            let cheaper =
                &cheaper[..cheaper.partition_point(|&(length, _)| sizes.cost_of(length) < cost)];
            let at = cheaper.partition_point(|&(length, _)| sizes.cost_of(length) < cost - wanted);
            for &(length, taken) in &cheaper[at.saturating_sub(1)..cheaper.len().min(at + 1)] {
                weigh(cost - sizes.cost_of(length), Self { sent, taken: Some(taken) });
            }
        }
        found
    }

    /// Does it.
    pub(super) fn apply(
        self,
        from: &mut MicroBatch,
        to: &mut MicroBatch,
        sizes: SequenceSizes<'_>,
    ) {
        match self.taken {
            Some(taken) => std::mem::swap(&mut from.members[self.sent], &mut to.members[taken]),
            None => to.members.push(from.members.swap_remove(self.sent)),
        }
        from.recount(sizes);
        to.recount(sizes);
    }
}
