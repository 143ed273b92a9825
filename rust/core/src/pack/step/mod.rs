//! A training step: its sequences, shared among ranks in micro-batches under a budget of tokens. Begin at `plan_step`.
//!
//! `fill` makes the micro-batches, `grid` exchanges sequences between them, `ranks_of_groups` divides sequences into optimizer
//! steps and kinds, whose micro-batches have none in common.

#![expect(clippy::cast_precision_loss, reason = "costs are estimates")]

mod alike_places;
mod fill;
mod micro_batch;
mod plan_step;
mod ranks_of_groups;
mod step_options;

pub use plan_step::{AgreeOnPlaces, StepPlan, plan_step};
pub use ranks_of_groups::MiniBatches;
pub use step_options::{Cost, Labels, MicroBatchOrder, StepOptions};
