//! Packing on the fly: open rows that are closed without having seen all lengths.

use std::num::NonZeroUsize;

use fastpack_core::config::{PackOptions, Strategy};
use fastpack_core::pack::{OpenPacks, Piece, Plan};
use proptest::prelude::*;

use crate::packing::{lengths, max, options, pieces, planned, rows};

proptest! {
    #[test]
    fn one_open_pack_makes_the_rows_of_the_sequential_strategy((max_length, lengths) in lengths()) {
        let mut open = OpenPacks::sequential(&options(max_length, Strategy::Sequential));
        let mut done = Plan::new(max(max_length));
        for piece in pieces::<Vec<_>>(&lengths) {
            open.push(piece, &mut done);
        }
        open.flush(&mut done);
        prop_assert_eq!(done, planned(&lengths, max_length, Strategy::Sequential));
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
    open.push(Piece { document: 40, start: 0, length: 6 }, &mut done);
    open.push(Piece { document: 42, start: 0, length: 7 }, &mut done);
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
