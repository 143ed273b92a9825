//! The options of a plan of a training step, and the labels of its sequences.

use std::num::NonZeroU32;

use crate::config::PackOptions;

/// The cost of a sequence: `linear` for each of its tokens, and `quadratic` for each pair of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// The cost of a token in all that does not attend: projections, the feed-forward network, the head.
    pub linear: f64,
    /// The cost of a pair of tokens in attention.
    pub quadratic: f64,
}

impl Cost {
    /// The cost of a sequence of `length` tokens.
    pub(super) fn of(self, length: u32) -> f64 {
        let length = f64::from(length);
        (self.linear + self.quadratic * length) * length
    }
}

/// The order of the micro-batches of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MicroBatchOrder {
    /// The costliest first, so that memory runs out at once or not at all.
    Heaviest,
    /// The costliest in the middle, so that the stages of a pipeline fill and drain with cheap ones.
    Pyramid,
}

/// The labels of sequences.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    /// The number of the group of each, if sequences of one group share a rank.
    pub groups: Option<&'a [u32]>,
    /// The number of the kind of each, and the number of kinds, if micro-batches of a place are of one kind.
    pub kinds: Option<(&'a [u32], u32)>,
}

/// The options of a plan.
#[derive(Clone, Debug)]
pub struct StepOptions {
    /// The size and the limits of a micro-batch, and the treatment of sequences that are longer. Its strategy says how few
    /// micro-batches are needed.
    pub packing: PackOptions,
    /// The ranks that share the step.
    pub ranks: NonZeroU32,
    /// The micro-batches of a rank in an optimizer step are a multiple of this.
    pub multiple_of: NonZeroU32,
    /// The cost of a sequence.
    pub cost: Cost,
    /// The order of the micro-batches.
    pub order: MicroBatchOrder,
}

impl StepOptions {
    /// The tokens of a micro-batch.
    pub(super) fn budget(&self) -> u64 {
        u64::from(self.packing.row_limit().get())
    }

    /// The number of ranks.
    pub(super) fn rank_count(&self) -> usize {
        self.ranks.get() as usize
    }
}
