//! What a plan of a training step is told.

use std::num::NonZeroU32;

use crate::config::option_words;

/// What a sequence costs: `linear` for each of its tokens, and `quadratic` for each pair of them.
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

option_words! {
    /// The order of the micro-batches of a rank.
    pub enum MicroBatchOrder {
        /// The costliest first, so that memory runs out at once or not at all.
        Heaviest = "heaviest",
        /// The costliest in the middle, so that the stages of a pipeline fill and drain with cheap ones.
        Pyramid = "pyramid",
    }
}

/// The sequences of a step.
#[derive(Clone, Copy, Debug)]
pub struct Sequences<'a> {
    /// The tokens of each.
    pub lengths: &'a [u32],
    /// The number of the group of each, if sequences of one group share a rank.
    pub groups: Option<&'a [u32]>,
    /// The number of the kind of each, and the number of kinds, if micro-batches of a place are of one kind.
    pub kinds: Option<(&'a [u32], u32)>,
}

/// The options of a plan.
#[derive(Clone, Debug)]
pub struct StepOptions {
    /// The most tokens of a micro-batch.
    pub max_length: NonZeroU32,
    /// The ranks that share the step.
    pub ranks: NonZeroU32,
    /// The micro-batches of a rank in an optimizer step are a multiple of this.
    pub multiple_of: NonZeroU32,
    /// The multiple of tokens that a sequence takes in its micro-batch.
    pub document_multiple_of: NonZeroU32,
    /// The most sequences of a micro-batch.
    pub max_documents: Option<NonZeroU32>,
    /// What a sequence costs.
    pub cost: Cost,
    /// The order of the micro-batches.
    pub order: MicroBatchOrder,
}

impl StepOptions {
    /// The tokens that a sequence takes in its micro-batch.
    pub(super) fn size_of(&self, length: u32) -> u64 {
        u64::from(length).next_multiple_of(u64::from(self.document_multiple_of.get()))
    }

    /// The tokens that a micro-batch has for sequences.
    pub(super) fn budget(&self) -> u64 {
        u64::from(self.max_length.get())
    }

    /// The number of ranks.
    pub(super) fn rank_count(&self) -> usize {
        self.ranks.get() as usize
    }
}
