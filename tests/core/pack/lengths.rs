//! Bare lengths: too long ones, and values that are no lengths.

use fastpack_core::Control;
use fastpack_core::config::{Overlong, PackOptions, Side, Strategy};
use fastpack_core::pack::{DocumentLengths, OverlongCut, PlannedLengths, cut};
use proptest::prelude::*;

use crate::packing::{lengths, options};

fn planned(lengths: &[u32], options: &PackOptions) -> PlannedLengths {
    let lengths: Vec<i64> = lengths.iter().copied().map(i64::from).collect();
    let lengths = DocumentLengths::new(&lengths, options).expect("the options are sound");
    lengths.plan(options, &Control::default()).expect("the lengths are sound, and nobody cancels")
}

/// The (document, first token, tokens) of all pieces, in input order.
fn packed(planned: &PlannedLengths) -> Vec<(u32, u32, u32)> {
    let plan = &planned.plan;
    let pieces = plan.pieces(0..plan.rows());
    let mut packed: Vec<_> =
        pieces.map(|piece| (piece.document, piece.start, piece.length)).collect();
    packed.sort_unstable();
    packed
}

proptest! {
    #[test]
    fn what_is_too_long_is_cut_as_told(
        (max_length, lengths) in lengths(),
        (overlong, truncation_side) in prop::sample::select(&[
            (None, Side::Right),
            (Some(Overlong::Drop), Side::Right),
            (Some(Overlong::Truncate), Side::Right),
            (Some(Overlong::Truncate), Side::Left),
            (Some(Overlong::Split), Side::Right),
        ][..]),
    ) {
        let most = max_length.div_ceil(3);
        let mut expected = Vec::new();
        let mut dropped = Vec::new();
        for (document, &length) in (0..).zip(&lengths) {
            match (overlong, truncation_side) {
                _ if length <= most => expected.push((document, 0, length)),
                (Some(Overlong::Truncate), Side::Right) => expected.push((document, 0, most)),
                (Some(Overlong::Truncate), Side::Left) => {
                    expected.push((document, length - most, most));
                }
                (Some(Overlong::Split), _) => {
                    let starts = (0..length).step_by(most as usize);
                    expected.extend(starts.map(|start| (document, start, most.min(length - start))));
                }
                _ => dropped.push(document),
            }
        }
        let options = PackOptions { overlong, truncation_side, ..options(most, Strategy::Mix) };
        let made = planned(&lengths, &options);
        prop_assert_eq!(packed(&made), expected);
        prop_assert_eq!(made.dropped, dropped);
    }

    #[test]
    fn a_dropped_tail_names_the_documents_that_are_gone(
        max_length in 1..40_u32, lengths in prop::collection::vec(1..90_u32, 0..30),
    ) {
        let options = PackOptions { drop_last: true, ..options(max_length, Strategy::Concat) };
        let made = planned(&lengths, &options);
        let tokens: u64 = lengths.iter().copied().map(u64::from).sum();
        prop_assert_eq!(made.plan.tokens(), tokens - tokens % u64::from(max_length));
        let there: std::collections::BTreeSet<u32> =
            packed(&made).into_iter().map(|(document, ..)| document).collect();
        let gone: Vec<u32> =
            (0..).zip(&lengths).map(|(at, _)| at).filter(|at| !there.contains(at)).collect();
        prop_assert_eq!(made.dropped, gone);
    }
}

#[test]
fn what_nobody_said_depends_on_the_kind_of_document() {
    let unsaid = options(8, Strategy::Mix);
    let strict = PackOptions { overlong: Some(Overlong::Error), ..unsaid.clone() };
    assert_eq!(cut(9, &[], &strict, Overlong::Drop), OverlongCut::Refuse);
    assert_eq!(cut(9, &[], &unsaid, Overlong::Drop), OverlongCut::Drop);
    let pieces = |cut| match cut {
        OverlongCut::Into(stretches) => stretches.collect(),
        OverlongCut::Drop | OverlongCut::Refuse => Vec::new(),
    };
    assert_eq!(pieces(cut(8, &[], &strict, Overlong::Drop)), [(0, 8)]);
    assert_eq!(pieces(cut(17, &[], &unsaid, Overlong::Split)), [(0, 8), (8, 8), (16, 1)]);
}

#[test]
fn conversations_are_never_split_unless_told_trl_5075() {
    let made = planned(&[20, 3], &options(8, Strategy::Mix));
    assert_eq!((packed(&made), made.dropped), (vec![(1, 0, 3)], vec![0]));
}

#[test]
fn truncation_keeps_the_end_where_told_verl_6372() {
    let keep_end = PackOptions {
        overlong: Some(Overlong::Truncate),
        truncation_side: Side::Left,
        ..options(8, Strategy::Mix)
    };
    assert_eq!(packed(&planned(&[20], &keep_end)), [(0, 12, 8)]);
}

#[test]
fn lengths_that_are_no_lengths_are_refused_by_index() {
    let refusal = |lengths: &[i64], options: &PackOptions| {
        let planned = DocumentLengths::new(lengths, options)
            .and_then(|lengths| lengths.plan(options, &Control::default()));
        planned.expect_err("one of the lengths is wrong").to_string()
    };
    let strict = PackOptions { overlong: Some(Overlong::Error), ..options(8, Strategy::BestFit) };
    assert_eq!(
        refusal(&[3, 0], &strict),
        "invalid option `lengths`: holds `0` at index 1; a length must be at least 1"
    );
    assert_eq!(
        refusal(&[-3], &strict),
        "invalid option `lengths`: holds `-3` at index 0; a length must be at least 1"
    );
    assert_eq!(
        refusal(&[8, 9], &strict),
        "invalid option `lengths`: holds `9` at index 1; more than max_length = 8; \
         pass overlong = \"drop\" or \"truncate\""
    );
    assert_eq!(
        refusal(&[1 << 31], &options(8, Strategy::Concat)),
        "invalid option `lengths`: holds `2147483648` at index 0; a document with pieces that begin after its \
         start must be below 2147483648 tokens long"
    );
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let refusal = |options: &PackOptions| {
        options.validate().expect_err("the options contradict each other").to_string()
    };
    let concat = options(8, Strategy::Concat);
    let mix = options(8, Strategy::Mix);
    let cut = PackOptions { overlong: Some(Overlong::Drop), ..concat.clone() };
    assert!(
        refusal(&cut).starts_with("invalid option `overlong`: is given, but strategy = \"concat\"")
    );
    let tail = PackOptions { drop_last: true, ..mix.clone() };
    assert!(
        refusal(&tail)
            .starts_with("invalid option `strategy.drop_last`: is given, but strategy = \"mix\"")
    );
    let keep = PackOptions { truncation_side: Side::Left, ..mix };
    assert!(refusal(&keep).starts_with("invalid option `overlong.side`: is \"left\", which only"));
}
