//! Laws that every plan keeps, and plans that a slower and plainer algorithm makes the same.

use std::collections::{BTreeMap, BinaryHeap};
use std::num::NonZeroU32;

use fastpack_core::config::{PackOptions, RowOrder, Strategy};
use fastpack_core::pack::{Piece, lower_bound, plan};
use fastpack_core::{Control, Error};
use proptest::prelude::*;
use proptest::strategy::Strategy as _;

use crate::packing::{STRATEGIES, lengths, max, options, pieces, plan_of, planned, rows};

/// The bound of documents of these lengths.
fn bound_of(lengths: &[u32], max_length: u32) -> u64 {
    let mut histogram = BTreeMap::<u32, u64>::new();
    for &length in lengths {
        *histogram.entry(length).or_default() += 1;
    }
    let histogram: Vec<_> = histogram.into_iter().collect();
    lower_bound(&histogram, &options(max_length, Strategy::None))
}

/// Rows by the first document in each.
fn in_input_order(mut rows: Vec<Vec<u32>>) -> Vec<Vec<u32>> {
    rows.sort_by_key(|row| row.iter().min().copied());
    rows
}

/// First-fit decreasing as the textbook has it: how many rows it makes.
fn first_fit_rows(lengths: &[u32], max_length: u32, most: u32) -> usize {
    let mut rows: Vec<(u32, u32)> = Vec::new();
    for document in longest_first(lengths) {
        let length = lengths[document as usize];
        match rows.iter_mut().find(|(space, left)| *space >= length && *left > 0) {
            Some((space, left)) => {
                *space -= length;
                *left -= 1;
            }
            None => rows.push((max_length - length, most - 1)),
        }
    }
    rows.len()
}

/// Documents laid end to end token by token: the (document, first token, tokens) of each row.
fn concat_oracle(lengths: &[u32], max_length: u32, most: u32) -> Vec<Vec<Piece>> {
    let mut rows: Vec<Vec<Piece>> = vec![Vec::new()];
    let mut tokens = 0;
    for (document, &length) in (0..).zip(lengths) {
        for start in 0..length {
            let row = rows.last_mut().expect("there is always a row");
            let goes_on = start > 0 && !row.is_empty();
            if tokens == max_length || (!goes_on && row.len() == most as usize) {
                rows.push(Vec::new());
                tokens = 0;
            }
            let row = rows.last_mut().expect("there is always a row");
            tokens += 1;
            match row.last_mut().filter(|piece| start > 0 && piece.document == document) {
                Some(piece) => piece.length += 1,
                None => row.push(Piece::new(document, start, 1)),
            }
        }
    }
    rows.retain(|row| !row.is_empty());
    rows
}

/// Any strategy with any constraint, on lengths that are longer than a row if it can take them.
fn packable() -> impl proptest::strategy::Strategy<Value = (PackOptions, Vec<u32>)> {
    let most = prop_oneof![Just(None), (1..6_u32).prop_map(NonZeroU32::new)];
    let order = prop_oneof![Just(None), Just(Some(RowOrder::Input)), Just(Some(RowOrder::Shuffle))];
    (lengths(), prop::sample::select(&STRATEGIES[..]), most, order, any::<u64>()).prop_map(
        |((max_length, lengths), strategy, max_documents_per_pack, order, seed)| {
            let options = PackOptions {
                max_documents_per_pack,
                order,
                seed,
                ..options(max_length, strategy)
            };
            let longer = |(at, length): (usize, &u32)| {
                if strategy == Strategy::Concat && at % 5 == 0 { length * 3 } else { *length }
            };
            (options, lengths.iter().enumerate().map(longer).collect())
        },
    )
}

/// Best-fit decreasing as the textbook has it: every row is looked at for every piece.
///
/// Of equally good rows, the one that has had its room for longest, as TRL's queues have it.
fn best_fit_oracle(lengths: &[u32], max_length: u32, most: usize) -> Vec<Vec<u32>> {
    let mut rows: Vec<(u32, usize, Vec<u32>)> = Vec::new();
    for (now, document) in longest_first(lengths).into_iter().enumerate() {
        let length = lengths[document as usize];
        let open = rows.iter_mut().filter(|(space, _, row)| *space >= length && row.len() < most);
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
    fn every_token_is_in_exactly_one_row_and_in_order((options, lengths) in packable()) {
        let plan = plan_of(&lengths, &options);
        let mut packed: Vec<Piece> = plan.pieces(0..plan.rows()).collect();
        packed.sort_unstable_by_key(|piece| (piece.document, piece.start));
        let mut next = vec![0; lengths.len()];
        for piece in packed {
            prop_assert_eq!(piece.start, next[piece.document as usize]);
            next[piece.document as usize] += piece.length;
        }
        prop_assert_eq!(&next, &lengths);
        prop_assert_eq!(plan.tokens(), lengths.iter().copied().map(u64::from).sum::<u64>());
    }

    #[test]
    fn only_concat_cuts((options, lengths) in packable()) {
        prop_assume!(options.strategy != Strategy::Concat);
        let plan = plan_of(&lengths, &options);
        let mut packed: Vec<Piece> = plan.pieces(0..plan.rows()).collect();
        packed.sort_unstable_by_key(|piece| piece.document);
        prop_assert_eq!(packed, pieces::<Vec<_>>(&lengths));
    }

    #[test]
    fn no_row_is_empty_or_holds_more_than_it_may((options, lengths) in packable()) {
        let plan = plan_of(&lengths, &options);
        for row in 0..plan.rows() {
            let tokens: u64 = plan.row(row).map(|piece| u64::from(piece.length)).sum();
            prop_assert!((1..=u64::from(options.row_limit().get())).contains(&tokens));
            let most = options.max_documents_per_pack.map_or(u32::MAX, NonZeroU32::get);
            prop_assert!(plan.row(row).len() <= most as usize);
        }
    }

    #[test]
    fn the_order_of_the_rows_changes_nothing_else((options, lengths) in packable()) {
        let sorted = |order| {
            let plan = plan_of(&lengths, &PackOptions { order: Some(order), ..options.clone() });
            let mut rows: Vec<Vec<Piece>> =
                (0..plan.rows()).map(|row| plan.row(row).collect()).collect();
            let key = |row: &Vec<Piece>| row.iter().map(|piece| (piece.document, piece.start)).min();
            let ordered = rows.is_sorted_by_key(key);
            rows.sort_by_key(key);
            (rows, ordered)
        };
        let (shuffled, _) = sorted(RowOrder::Shuffle);
        let (input, ordered) = sorted(RowOrder::Input);
        prop_assert!(ordered);
        prop_assert_eq!(shuffled, input);
    }

    #[test]
    fn a_seed_gives_the_same_plan_again((options, lengths) in packable()) {
        prop_assert_eq!(plan_of(&lengths, &options), plan_of(&lengths, &options));
    }

    #[test]
    fn mix_makes_no_more_rows_than_first_fit_decreasing((options, lengths) in packable()) {
        let most = options.max_documents_per_pack.map_or(u32::MAX, NonZeroU32::get);
        let lengths: Vec<u32> =
            lengths.into_iter().map(|length| length.min(options.row_limit().get())).collect();
        let mixed = plan_of(&lengths, &PackOptions { strategy: Strategy::Mix, ..options.clone() });
        prop_assert!(mixed.rows() <= first_fit_rows(&lengths, options.row_limit().get(), most));
    }

    #[test]
    fn best_fit_makes_the_rows_of_the_textbook((options, lengths) in packable()) {
        let lengths: Vec<u32> =
            lengths.into_iter().map(|length| length.min(options.row_limit().get())).collect();
        let options =
            PackOptions { strategy: Strategy::BestFit, order: Some(RowOrder::Input), ..options };
        let most = options.max_documents_per_pack.map_or(usize::MAX, |most| most.get() as usize);
        let oracle = best_fit_oracle(&lengths, options.row_limit().get(), most);
        prop_assert_eq!(rows(&plan_of(&lengths, &options)), in_input_order(oracle));
    }

    #[test]
    fn aligned_documents_share_rows_as_longer_ones_would(
        (options, lengths) in packable(), align in prop::sample::select(&[2, 8, 64][..]),
    ) {
        prop_assume!(options.strategy != Strategy::Concat);
        let longest = options.row_limit().get().next_multiple_of(align);
        let options = PackOptions { max_length: Some(max(longest)), ..options };
        let rooms: Vec<u32> = lengths.iter().map(|length| length.next_multiple_of(align)).collect();
        let expected = plan_of(&rooms, &options);
        let aligned = PackOptions { align_documents_to: NonZeroU32::new(align), ..options };
        let made = plan_of(&lengths, &aligned);
        prop_assert_eq!((made.members(), made.offsets()), (expected.members(), expected.offsets()));
        let kept: Vec<u32> = made.members().iter().map(|&document| lengths[document as usize]).collect();
        prop_assert_eq!(made.lengths_of(0..made.rows()), kept);
    }

    #[test]
    fn heap_makes_the_rows_of_a_heap((max_length, lengths) in lengths()) {
        let plan = planned(&lengths, max_length, Strategy::Heap);
        let oracle = next_fit_oracle(&lengths, max_length, &longest_first(&lengths));
        prop_assert_eq!(rows(&plan), in_input_order(oracle));
    }

    #[test]
    fn concat_cuts_where_a_row_ends(
        max_length in 1..40_u32, lengths in prop::collection::vec(1..90_u32, 0..30), most in 1..8_u32,
    ) {
        let expected = concat_oracle(&lengths, max_length, most);
        let options = PackOptions {
            max_documents_per_pack: Some(max(most)),
            ..options(max_length, Strategy::Concat)
        };
        let plan = plan_of(&lengths, &options);
        let made: Vec<Vec<Piece>> = (0..plan.rows()).map(|row| plan.row(row).collect()).collect();
        prop_assert_eq!(made, expected);
    }

    #[test]
    fn concat_drops_no_more_than_its_last_row(
        max_length in 1..40_u32, lengths in prop::collection::vec(1..90_u32, 0..30),
    ) {
        let mut expected = concat_oracle(&lengths, max_length, u32::MAX);
        let full = |row: &Vec<Piece>| {
            row.iter().map(|piece| piece.length).sum::<u32>() == max_length
        };
        let tail = expected.pop_if(|row| !full(row)).unwrap_or_default();
        let options = PackOptions { drop_last: true, ..options(max_length, Strategy::Concat) };
        let made = plan(pieces(&lengths), &options, &Control::default()).expect("nobody cancels");
        let left_out: Vec<Piece> = made.left_out.iter().map(|left| left.piece).collect();
        prop_assert_eq!(left_out, tail);
        let rows: Vec<Vec<Piece>> =
            (0..made.plan.rows()).map(|row| made.plan.row(row).collect()).collect();
        prop_assert_eq!(rows, expected);
    }

    #[test]
    fn the_lower_bound_counts_documents_too((options, lengths) in packable()) {
        let lengths: Vec<u32> =
            lengths.into_iter().map(|length| length.min(options.row_limit().get())).collect();
        let options = PackOptions { strategy: Strategy::Mix, ..options };
        let mut histogram = BTreeMap::<u32, u64>::new();
        for &length in &lengths {
            *histogram.entry(length).or_default() += 1;
        }
        let histogram: Vec<_> = histogram.into_iter().collect();
        let bound = lower_bound(&histogram, &options);
        let most = options.max_documents_per_pack.map_or(u32::MAX, NonZeroU32::get);
        prop_assert!(bound >= (lengths.len() as u64).div_ceil(u64::from(most)));
        prop_assert!(bound <= plan_of(&lengths, &options).rows() as u64);
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
        let bound = bound_of(&lengths, max_length);
        let tokens: u64 = lengths.iter().copied().map(u64::from).sum();
        prop_assert!(bound >= tokens.div_ceil(u64::from(max_length)));
        for strategy in STRATEGIES.into_iter().filter(|&strategy| strategy != Strategy::Concat) {
            prop_assert!(bound <= planned(&lengths, max_length, strategy).rows() as u64);
        }
    }

    #[test]
    fn the_lower_bound_is_that_of_martello_and_toth(
        (max_length, lengths) in (1..200_u32).prop_flat_map(|max| {
            (Just(max), prop::collection::vec(1..=max, 0..60))
        })
    ) {
        prop_assert_eq!(bound_of(&lengths, max_length), lower_bound_oracle(&lengths, max_length));
    }

}

#[test]
fn nothing_to_pack_is_no_row() {
    for strategy in STRATEGIES {
        let plan = planned(&[], 8, strategy);
        assert_eq!((plan.rows(), plan.offsets(), plan.fill()), (0, &[0][..], 0.0));
    }
    assert_eq!(bound_of(&[], 8), 0);
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
    assert_eq!(bound_of(&lengths, longest), 9);
}

#[test]
fn the_lower_bound_sees_pieces_that_cannot_share() {
    // 30 tokens would fill 3 rows of 10, but no two pieces of 6 share one.
    assert_eq!(bound_of(&[6, 6, 6, 6, 6], 10), 5);
}

#[test]
fn starts_and_documents_go_through_untouched() {
    let pieces = [Piece::new(7, 3, 4), Piece::new(7, 0, 3)];
    let options = options(7, Strategy::Sequential);
    let plan = plan(pieces.into_iter().collect(), &options, &Control::default())
        .expect("nobody cancels")
        .plan;
    assert_eq!(plan.row(0).collect::<Vec<_>>(), pieces);
    let columns = plan.into_columns();
    assert_eq!((columns.offsets, columns.members), (vec![0, 2], vec![7, 7]));
    assert_eq!((columns.starts, columns.lengths), (vec![3, 0], vec![4, 3]));
}

#[test]
fn a_cancelled_plan_ends() {
    let control = Control::default();
    control.cancel();
    for strategy in STRATEGIES {
        let result = plan(pieces(&[1, 2, 3]), &options(8, strategy), &control);
        assert!(matches!(result, Err(Error::Cancelled)), "{strategy:?}");
    }
}

#[test]
#[should_panic(expected = "at least one token and at most `max_length`")]
fn a_piece_longer_than_a_row_is_a_fault_of_the_caller() {
    planned(&[9], 8, Strategy::BestFit);
}

#[test]
fn a_shuffle_and_a_mix_heed_the_seed_megatron_bridge_4891() {
    let lengths: Vec<u32> = (1..=400).map(|at| 1 + at * 37 % 90).collect();
    for strategy in [Strategy::Mix, Strategy::BestFit, Strategy::Heap] {
        let with = |seed| {
            rows(&plan_of(&lengths, &PackOptions { seed, order: None, ..options(100, strategy) }))
        };
        assert_ne!(with(0), with(1), "{strategy:?}");
        assert_ne!(in_input_order(with(0)), with(0), "{strategy:?}");
    }
}

#[test]
fn seeded_plans_are_the_same_on_every_machine_and_in_every_version() {
    let lengths = [5, 3, 7, 2, 6, 4, 1, 8];
    let options = PackOptions { seed: 1, order: None, ..options(9, Strategy::Sequential) };
    let shuffled = PackOptions { order: Some(RowOrder::Shuffle), ..options };
    // SplitMix64 of seed 1, worked out with its published reference code.
    assert_eq!(
        rows(&plan_of(&lengths, &shuffled)),
        [vec![0, 1], vec![2, 3], vec![7], vec![5, 6], vec![4]]
    );
}

#[test]
fn a_row_length_of_a_power_of_two_and_one_packs_trl_3887() {
    for max_length in [1023, 1024, 1025, 1500] {
        let lengths: Vec<u32> = (0..1000).map(|at| 300 + at * 61 % 400).collect();
        for strategy in [Strategy::Mix, Strategy::BestFit] {
            let rows = planned(&lengths, max_length, strategy).rows();
            assert!(
                rows <= first_fit_rows(&lengths, max_length, u32::MAX),
                "{strategy:?} {max_length}"
            );
        }
    }
}
