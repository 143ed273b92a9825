//! Laws that every plan keeps, and plans that a slower and plainer algorithm makes the same.

use std::collections::BTreeMap;
use std::collections::BinaryHeap;
use std::num::{NonZeroU32, NonZeroUsize};

use fastpack_core::config::{Overlong, Strategy};
use fastpack_core::pack::{Cut, OpenPacks, Piece, Plan, cut, lower_bound, plan, plan_lengths};
use fastpack_core::{Control, Error};
use proptest::prelude::*;
use proptest::strategy::Strategy as _;

const STRATEGIES: [Strategy; 4] =
    [Strategy::BestFit, Strategy::Heap, Strategy::Sequential, Strategy::None];

/// The bound of documents of these lengths.
fn bound_of(lengths: &[u32], max_length: NonZeroU32) -> u64 {
    let mut histogram = BTreeMap::<u32, u64>::new();
    for &length in lengths {
        *histogram.entry(length).or_default() += 1;
    }
    lower_bound(&histogram.into_iter().collect::<Vec<_>>(), max_length)
}

fn max(length: u32) -> NonZeroU32 {
    NonZeroU32::new(length).expect("a test's max_length is not 0")
}

fn pieces(lengths: &[u32]) -> Vec<Piece> {
    (0..).zip(lengths).map(|(document, &length)| Piece { document, start: 0, length }).collect()
}

fn planned(lengths: &[u32], max_length: u32, strategy: Strategy) -> Plan {
    plan(&pieces(lengths), max(max_length), strategy, &Control::default()).expect("nobody cancels")
}

fn rows(plan: &Plan) -> Vec<Vec<u32>> {
    (0..plan.rows()).map(|row| plan.row(row).map(|piece| piece.document).collect()).collect()
}

/// A `max_length`, and lengths that fit it: many short ones, many close to it, few kinds.
fn lengths() -> impl proptest::strategy::Strategy<Value = (u32, Vec<u32>)> {
    let max_length = prop_oneof![1..=20_u32, 60..=70_u32, 1..=5000_u32, 2_000_000..=3_000_000_u32];
    max_length.prop_flat_map(|max| {
        let length = prop_oneof![1..=max, 1..=max.min(9), max / 2 + 1..=max, Just(max)];
        (Just(max), prop::collection::vec(length, 0..200))
    })
}

/// Best-fit decreasing as the textbook has it: every row is looked at for every piece.
///
/// Of equally good rows, the one that has had its room for longest, as TRL's queues have it.
fn best_fit_oracle(lengths: &[u32], max_length: u32) -> Vec<Vec<u32>> {
    let mut rows: Vec<(u32, usize, Vec<u32>)> = Vec::new();
    for (now, document) in longest_first(lengths).into_iter().enumerate() {
        let length = lengths[document as usize];
        let open = rows.iter_mut().filter(|(space, ..)| *space >= length && *space < max_length);
        match open.min_by_key(|(space, since, _)| (*space, *since)) {
            Some((space, since, row)) => {
                *space -= length;
                *since = now;
                row.push(document);
            }
            None => rows.push((max_length - length, now, vec![document])),
        }
    }
    rows.into_iter().map(|(.., row)| row).collect()
}

fn longest_first(lengths: &[u32]) -> Vec<u32> {
    let mut heap: BinaryHeap<(u32, std::cmp::Reverse<u32>)> = (0..)
        .zip(lengths)
        .map(|(document, &length)| (length, std::cmp::Reverse(document)))
        .collect();
    std::iter::from_fn(|| heap.pop()).map(|(_, std::cmp::Reverse(document))| document).collect()
}

fn next_fit_oracle(lengths: &[u32], max_length: u32, order: &[u32]) -> Vec<Vec<u32>> {
    let mut rows: Vec<Vec<u32>> = Vec::new();
    for &document in order {
        let used = |row: &Vec<u32>| {
            row.iter().map(|&member| u64::from(lengths[member as usize])).sum::<u64>()
        };
        match rows.last_mut() {
            Some(row)
                if used(row) + u64::from(lengths[document as usize]) <= u64::from(max_length) =>
            {
                row.push(document);
            }
            _ => rows.push(vec![document]),
        }
    }
    rows
}

/// L2 with every threshold tried on every length.
fn lower_bound_oracle(lengths: &[u32], max_length: u32) -> u64 {
    let capacity = u64::from(max_length);
    let bound = |least: u64| {
        let (mut alone, mut large, mut room, mut small) = (0, 0, 0, 0);
        for length in lengths.iter().copied().map(u64::from) {
            if length > capacity - least {
                alone += 1;
            } else if length > capacity / 2 {
                large += 1;
                room += capacity - length;
            } else if length >= least {
                small += length;
            }
        }
        alone + large + small.saturating_sub(room).div_ceil(capacity)
    };
    (0..=capacity / 2).map(bound).max().unwrap_or(0)
}

proptest! {
    #[test]
    fn every_piece_is_in_exactly_one_row((max_length, lengths) in lengths()) {
        for strategy in STRATEGIES {
            let plan = planned(&lengths, max_length, strategy);
            let mut packed: Vec<Piece> = plan.pieces(0..plan.rows()).collect();
            packed.sort_unstable_by_key(|piece| piece.document);
            prop_assert_eq!(packed, pieces(&lengths));
            prop_assert_eq!(plan.tokens(), lengths.iter().copied().map(u64::from).sum::<u64>());
        }
    }

    #[test]
    fn no_row_is_empty_or_longer_than_max_length((max_length, lengths) in lengths()) {
        for strategy in STRATEGIES {
            let plan = planned(&lengths, max_length, strategy);
            for row in 0..plan.rows() {
                let tokens: u64 = plan.row(row).map(|piece| u64::from(piece.length)).sum();
                prop_assert!((1..=u64::from(max_length)).contains(&tokens));
            }
        }
    }

    #[test]
    fn best_fit_makes_the_rows_of_the_textbook((max_length, lengths) in lengths()) {
        let plan = planned(&lengths, max_length, Strategy::BestFit);
        prop_assert_eq!(rows(&plan), best_fit_oracle(&lengths, max_length));
    }

    #[test]
    fn heap_makes_the_rows_of_a_heap((max_length, lengths) in lengths()) {
        let plan = planned(&lengths, max_length, Strategy::Heap);
        prop_assert_eq!(rows(&plan), next_fit_oracle(&lengths, max_length, &longest_first(&lengths)));
    }

    #[test]
    fn sequential_keeps_the_input_order((max_length, lengths) in lengths()) {
        let plan = planned(&lengths, max_length, Strategy::Sequential);
        let order: Vec<u32> = (0..).zip(&lengths).map(|(document, _)| document).collect();
        prop_assert_eq!(rows(&plan), next_fit_oracle(&lengths, max_length, &order));
        prop_assert_eq!(plan.members(), order);
    }

    #[test]
    fn none_gives_each_piece_a_row((max_length, lengths) in lengths()) {
        let plan = planned(&lengths, max_length, Strategy::None);
        let order: Vec<Vec<u32>> = (0..).zip(&lengths).map(|(document, _)| vec![document]).collect();
        prop_assert_eq!(rows(&plan), order);
    }

    #[test]
    fn the_lower_bound_is_between_the_tokens_and_any_plan((max_length, lengths) in lengths()) {
        let bound = bound_of(&lengths, max(max_length));
        let tokens: u64 = lengths.iter().copied().map(u64::from).sum();
        prop_assert!(bound >= tokens.div_ceil(u64::from(max_length)));
        for strategy in STRATEGIES {
            prop_assert!(bound <= planned(&lengths, max_length, strategy).rows() as u64);
        }
    }

    #[test]
    fn the_lower_bound_is_that_of_martello_and_toth(
        (max_length, lengths) in (1..200_u32).prop_flat_map(|max| {
            (Just(max), prop::collection::vec(1..=max, 0..60))
        })
    ) {
        prop_assert_eq!(bound_of(&lengths, max(max_length)), lower_bound_oracle(&lengths, max_length));
    }

    #[test]
    fn one_open_pack_makes_the_rows_of_the_sequential_strategy((max_length, lengths) in lengths()) {
        let mut open = OpenPacks::sequential(max(max_length));
        let mut done = Plan::new(max(max_length));
        for piece in pieces(&lengths) {
            open.push(piece, &mut done);
        }
        open.flush(&mut done);
        prop_assert_eq!(done, planned(&lengths, max_length, Strategy::Sequential));
    }

    #[test]
    fn open_packs_hand_out_every_piece_once((max_length, lengths) in lengths(), most in 1..9_usize) {
        let most = NonZeroUsize::new(most).expect("at least 1");
        let mut open = OpenPacks::best_fit(max(max_length), most);
        let mut done = Plan::new(max(max_length));
        for (pushed, piece) in pieces(&lengths).into_iter().enumerate() {
            open.push(piece, &mut done);
            prop_assert!(open.len() <= most.get());
            let tokens: u64 = lengths[..=pushed].iter().copied().map(u64::from).sum();
            prop_assert_eq!(open.tokens() + done.tokens(), tokens);
            if pushed % 50 == 49 {
                open.close_oldest(&mut done);
            }
        }
        open.flush(&mut done);
        prop_assert!(open.is_empty());
        let mut packed: Vec<Piece> = done.pieces(0..done.rows()).collect();
        packed.sort_unstable_by_key(|piece| piece.document);
        prop_assert_eq!(packed, pieces(&lengths));
    }

    #[test]
    fn bare_lengths_are_dropped_or_cut_as_told((max_length, lengths) in lengths()) {
        let shorter = max(max_length.div_ceil(2));
        let bare: Vec<i64> = lengths.iter().copied().map(i64::from).collect();
        let planned = |overlong| {
            plan_lengths(&bare, shorter, Strategy::BestFit, overlong, &Control::default())
                .expect("the lengths are sound")
        };
        let dropping = planned(Overlong::Drop);
        let long = |length: u32| length > shorter.get();
        let expected: Vec<u32> =
            (0..).zip(&lengths).filter(|(_, length)| long(**length)).map(|(document, _)| document).collect();
        prop_assert_eq!(&dropping.dropped, &expected);
        prop_assert_eq!(dropping.plan.members().len() + dropping.dropped.len(), lengths.len());

        let cutting = planned(Overlong::Truncate);
        prop_assert!(cutting.dropped.is_empty());
        let kept: u64 = lengths.iter().map(|&length| u64::from(length.min(shorter.get()))).sum();
        prop_assert_eq!(cutting.plan.tokens(), kept);
    }
}

#[test]
fn nothing_to_pack_is_no_row() {
    for strategy in STRATEGIES {
        let plan = planned(&[], 8, strategy);
        assert_eq!((plan.rows(), plan.offsets(), plan.fill()), (0, &[0][..], 0.0));
    }
    assert_eq!(lower_bound(&[], max(8)), 0);
}

#[test]
fn a_row_of_one_token_holds_one_token() {
    for strategy in STRATEGIES {
        assert_eq!(rows(&planned(&[1, 1], 1, strategy)), [[0], [1]]);
    }
}

#[test]
fn tokens_are_counted_beyond_the_reach_of_32_bits() {
    let longest = i32::MAX.unsigned_abs();
    let lengths = vec![longest; 9];
    for strategy in STRATEGIES {
        let plan = planned(&lengths, longest, strategy);
        assert_eq!((plan.rows(), plan.tokens()), (9, 9 * u64::from(longest)));
        assert!((plan.fill() - 1.0).abs() < 1e-12);
    }
    assert_eq!(bound_of(&lengths, max(longest)), 9);
}

#[test]
fn the_lower_bound_sees_pieces_that_cannot_share() {
    // 30 tokens would fill 3 rows of 10, but no two pieces of 6 share one.
    assert_eq!(bound_of(&[6, 6, 6, 6, 6], max(10)), 5);
}

#[test]
fn starts_and_documents_go_through_untouched() {
    let pieces =
        [Piece { document: 7, start: 3, length: 4 }, Piece { document: 7, start: 0, length: 3 }];
    let plan =
        plan(&pieces, max(7), Strategy::Sequential, &Control::default()).expect("nobody cancels");
    assert_eq!(plan.row(0).collect::<Vec<_>>(), pieces);
    assert_eq!(
        (plan.members(), plan.starts(), plan.lengths()),
        (&[7, 7][..], &[3, 0][..], &[4, 3][..])
    );
}

#[test]
fn a_cancelled_plan_ends() {
    let control = Control::default();
    control.cancel();
    for strategy in STRATEGIES {
        let result = plan(&pieces(&[1, 2, 3]), max(8), strategy, &control);
        assert!(matches!(result, Err(Error::Cancelled)), "{strategy:?}");
    }
}

#[test]
#[should_panic(expected = "at least one token and at most `max_length`")]
fn a_piece_longer_than_a_row_is_a_fault_of_the_caller() {
    planned(&[9], 8, Strategy::BestFit);
}

#[test]
fn what_is_too_long_is_cut_as_told() {
    assert_eq!(cut(8, max(8), Overlong::Error), Cut::Whole);
    assert_eq!(cut(9, max(8), Overlong::Error), Cut::Refuse);
    assert_eq!(cut(9, max(8), Overlong::Drop), Cut::Drop);
    assert_eq!(cut(u64::MAX, max(8), Overlong::Truncate), Cut::Start);
}

#[test]
fn bare_lengths_that_are_no_lengths_are_refused_by_index() {
    let refusal = |lengths: &[i64]| {
        plan_lengths(lengths, max(8), Strategy::BestFit, Overlong::Error, &Control::default())
            .expect_err("one of the lengths is wrong")
            .to_string()
    };
    assert_eq!(
        refusal(&[3, 0]),
        "invalid option `lengths`: holds `0` at index 1; a length must be at least 1"
    );
    assert_eq!(
        refusal(&[-3]),
        "invalid option `lengths`: holds `-3` at index 0; a length must be at least 1"
    );
    assert_eq!(
        refusal(&[8, 9]),
        "invalid option `lengths`: holds `9` at index 1; more than max_length=8; \
         pass overlong=\"drop\" or overlong=\"truncate\""
    );
}

#[test]
fn the_fullest_open_pack_makes_way() {
    let mut open = OpenPacks::best_fit(max(10), NonZeroUsize::new(2).expect("not 0"));
    let mut done = Plan::new(max(10));
    for piece in pieces(&[6, 7, 5]) {
        open.push(piece, &mut done);
    }
    assert_eq!(rows(&done), [[1]]);
    open.flush(&mut done);
    assert_eq!(rows(&done), [[1], [0], [2]]);
}

#[test]
fn a_pack_that_is_full_is_handed_out_at_once() {
    let mut open = OpenPacks::best_fit(max(10), NonZeroUsize::new(2).expect("not 0"));
    let mut done = Plan::new(max(10));
    for piece in pieces(&[6, 7, 10, 4]) {
        open.push(piece, &mut done);
    }
    assert_eq!(rows(&done), [vec![2], vec![0, 3]]);
    assert_eq!(open.oldest(), Some(1));
}

#[test]
fn open_packs_can_count_documents_from_a_later_one() {
    let mut open = OpenPacks::best_fit(max(10), NonZeroUsize::new(4).expect("not 0"));
    let mut done = Plan::starting_at(max(10), 5_000_000_000);
    open.push(Piece { document: 40, start: 0, length: 6 }, &mut done);
    open.push(Piece { document: 42, start: 0, length: 7 }, &mut done);
    open.rebase(40);
    assert_eq!(open.oldest(), Some(0));
    open.close_oldest(&mut done);
    open.flush(&mut done);
    assert_eq!(rows(&done), [[0], [2]]);
    assert_eq!(done.first_document(), 5_000_000_000);
}
