//! One tokenizer under several threads.

use fastpack_tokenize::SpecialTokens::Omit;

use crate::small::{all, encode, load};

#[test]
fn all_threads_get_the_same_ids() {
    let texts: Vec<String> =
        (0..200).map(|n| format!("the {n} ab hi é😀 a.b {}", "ab ".repeat(n % 7))).collect();
    for (_, value) in all() {
        let tokenizer = load(&value);
        let alone: Vec<_> =
            texts.iter().map(|text| encode(&tokenizer, text, &[], Omit).ids).collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for (text, ids) in texts.iter().zip(&alone) {
                        assert_eq!(&encode(&tokenizer, text, &[], Omit).ids, ids);
                    }
                });
            }
        });
    }
}
