//! The common parts of the tests of packing: options without surprises, and lengths that are hard to pack.

use std::num::NonZeroU32;

use fastpack_core::Control;
use fastpack_core::config::{OnRemainder, PackOptions, RowOrder, Side, Strategy};
use fastpack_core::pack::{Piece, Plan, plan};
use proptest::prelude::*;
use proptest::strategy::Strategy as _;

pub(crate) const STRATEGIES: [Strategy; 6] = [
    Strategy::Mix,
    Strategy::BestFit,
    Strategy::Heap,
    Strategy::Sequential,
    Strategy::Concat,
    Strategy::None,
];

pub(crate) fn max(length: u32) -> NonZeroU32 {
    NonZeroU32::new(length).expect("a test's max_length is not 0")
}

/// Rows in input order, without constraints.
pub(crate) fn options(max_length: u32, strategy: Strategy) -> PackOptions {
    PackOptions {
        max_length: Some(max(max_length)),
        max_target_length: None,
        max_images_per_pack: None,
        max_image_tokens_per_pack: None,
        strategy,
        overlong: None,
        truncation_side: Side::Right,
        drop_last: false,
        shuffle: false,
        max_documents_per_pack: None,
        align_documents_to: None,
        order: Some(RowOrder::Input),
        balance_ranks: None,
        on_remainder: OnRemainder::Pad,
        seed: 0,
    }
}

pub(crate) fn pieces<All: FromIterator<Piece>>(lengths: &[u32]) -> All {
    (0..).zip(lengths).map(|(document, &length)| Piece::new(document, 0, length)).collect()
}

pub(crate) fn plan_of(lengths: &[u32], options: &PackOptions) -> Plan {
    plan(pieces(lengths), options, &Control::default()).expect("nobody cancels").plan
}

pub(crate) fn planned(lengths: &[u32], max_length: u32, strategy: Strategy) -> Plan {
    plan_of(lengths, &options(max_length, strategy))
}

pub(crate) fn rows(plan: &Plan) -> Vec<Vec<u32>> {
    (0..plan.rows()).map(|row| plan.row(row).map(|piece| piece.document).collect()).collect()
}

/// A `max_length`, and lengths that fit it: many short ones, many close to it, few kinds.
pub(crate) fn lengths() -> impl proptest::strategy::Strategy<Value = (u32, Vec<u32>)> {
    let max_length = prop_oneof![1..=20_u32, 60..=70_u32, 1..=5000_u32, 2_000_000..=3_000_000_u32];
    max_length.prop_flat_map(|max| {
        let length = prop_oneof![1..=max, 1..=max.min(9), max / 2 + 1..=max, Just(max)];
        (Just(max), prop::collection::vec(length, 0..200))
    })
}
