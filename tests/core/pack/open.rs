//! Packing on the fly: open rows that are closed without having seen all lengths.

use std::num::{NonZeroU32, NonZeroUsize};

use fastpack_core::config::{PackOptions, RowOrder, Strategy};
use fastpack_core::pack::{OpenPacks, Piece, Plan, plan};
use fastpack_core::util::control::Control;
use proptest::prelude::*;

use crate::packing::{lengths, max, options, pieces, rows};

proptest! {
    #[test]
    fn strategies_that_never_look_back_make_the_same_rows_on_the_fly(
        (max_length, lengths) in lengths(),
        strategy in prop_oneof![Just(Strategy::Sequential), Just(Strategy::Concat), Just(Strategy::None)],
        most in prop::option::of(1..4_u32),
        align in prop::option::of(prop_oneof![Just(1_u32), Just(2)]),
        drops in any::<bool>(),
        stretch in 1..4_u32,
    ) {
        let options = PackOptions {
            max_documents_per_pack: most.and_then(NonZeroU32::new),
            align_documents_to: align.filter(|it| max_length.is_multiple_of(*it)).and_then(NonZeroU32::new),
            drop_last: drops && strategy == Strategy::Concat,
            ..options(max_length, strategy)
        };
        // Only `concat` takes documents that are longer than a row.
        let stretch = if strategy == Strategy::Concat { stretch } else { 1 };
        let lengths: Vec<u32> = lengths.iter().map(|length| length * stretch).collect();
        let expected = plan(pieces(&lengths), &options, &Control::default()).expect("nobody cancels");

        let mut open = OpenPacks::in_order(&options).expect("a strategy that never looks back");
        let mut done = Plan::new(max(max_length)).aligned_to(options.align_documents_to);
        for piece in pieces::<Vec<_>>(&lengths) {
            open.push(piece, &mut done);
        }
        let tail = open.flush(&mut done);
        prop_assert_eq!(done, expected.plan);
        let left_out: Vec<Piece> = expected.left_out.iter().map(|it| it.piece).collect();
        prop_assert_eq!(tail, left_out);
    }

    #[test]
    fn open_packs_hand_out_every_piece_once((max_length, lengths) in lengths(), most in 1..9_usize) {
        let most = NonZeroUsize::new(most).expect("at least 1");
        let mut open = OpenPacks::best_fit(&options(max_length, Strategy::BestFit), most);
        let mut done = Plan::new(max(max_length));
        for (pushed, piece) in pieces::<Vec<_>>(&lengths).into_iter().enumerate() {
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
        prop_assert_eq!(packed, pieces::<Vec<_>>(&lengths));
    }

}

#[test]
fn the_fullest_open_pack_makes_way() {
    let mut open =
        OpenPacks::best_fit(&options(10, Strategy::BestFit), NonZeroUsize::new(2).expect("not 0"));
    let mut done = Plan::new(max(10));
    for piece in pieces::<Vec<_>>(&[6, 7, 5]) {
        open.push(piece, &mut done);
    }
    assert_eq!(rows(&done), [[1]]);
    open.flush(&mut done);
    assert_eq!(rows(&done), [[1], [0], [2]]);
}

#[test]
fn a_pack_that_is_full_is_handed_out_at_once() {
    let mut open =
        OpenPacks::best_fit(&options(10, Strategy::BestFit), NonZeroUsize::new(2).expect("not 0"));
    let mut done = Plan::new(max(10));
    for piece in pieces::<Vec<_>>(&[6, 7, 10, 4]) {
        open.push(piece, &mut done);
    }
    assert_eq!(rows(&done), [vec![2], vec![0, 3]]);
    assert_eq!(open.oldest(), Some(1));
}

#[test]
fn open_packs_can_count_documents_from_a_later_one() {
    let mut open =
        OpenPacks::best_fit(&options(10, Strategy::BestFit), NonZeroUsize::new(4).expect("not 0"));
    let mut done = Plan::starting_at(max(10), 5_000_000_000);
    open.push(Piece::new(40, 0, 6), &mut done);
    open.push(Piece::new(42, 0, 7), &mut done);
    open.rebase(40);
    assert_eq!(open.oldest(), Some(0));
    open.close_oldest(&mut done);
    open.flush(&mut done);
    assert_eq!(rows(&done), [[0], [2]]);
    assert_eq!(done.first_document(), 5_000_000_000);
}

#[test]
fn an_open_pack_with_all_its_documents_is_handed_out_at_once() {
    let limited =
        PackOptions { max_documents_per_pack: Some(max(2)), ..options(10, Strategy::BestFit) };
    let mut open = OpenPacks::best_fit(&limited, NonZeroUsize::new(4).expect("not 0"));
    let mut done = Plan::new(max(10));
    for piece in pieces::<Vec<_>>(&[3, 2, 1, 4]) {
        open.push(piece, &mut done);
    }
    assert_eq!(rows(&done), [[0, 1], [2, 3]]);
    assert!(open.is_empty());
}

#[test]
fn rows_that_depend_on_all_lengths_are_not_made_on_the_fly() {
    for strategy in [Strategy::Mix, Strategy::BestFit, Strategy::Heap] {
        let by_input = PackOptions { order: Some(RowOrder::Input), ..options(10, strategy) };
        assert!(OpenPacks::in_order(&by_input).is_none());
    }
    for strategy in [Strategy::Sequential, Strategy::Concat, Strategy::None] {
        assert!(OpenPacks::in_order(&options(10, strategy)).is_some());
        let shuffled = PackOptions { order: Some(RowOrder::Shuffle), ..options(10, strategy) };
        assert!(OpenPacks::in_order(&shuffled).is_none());
    }
}
