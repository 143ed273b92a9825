//! Verification: a document whose ids another engine makes otherwise is found.

use std::path::Path;
use std::sync::Arc;

use fastpack_core::config::{Bos, Eos};
use fastpack_core::document::bos_and_eos::{BosAndEos, TextKind};
use fastpack_core::document::tokenize::DocumentMaker;
use fastpack_core::document::{Documents, INPUTS};
use fastpack_core::report::ledger::Ledger;
use fastpack_core::template::{Rendered, Span, Trained};
use fastpack_tokenize::Tokenizer;

/// A tokenizer of words: those of `words`, in the order of their ids.
fn tokenizer(words: &[&str]) -> Tokenizer {
    let vocabulary: Vec<String> =
        words.iter().enumerate().map(|(id, word)| format!("{word:?}: {id}")).collect();
    let json = format!(
        r#"{{"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": {{"type": "Whitespace"}},
            "post_processor": null, "decoder": null,
            "model": {{"type": "WordLevel", "vocab": {{{}}}, "unk_token": "?"}}}}"#,
        vocabulary.join(", ")
    );
    Tokenizer::from_json(&json).expect("a tokenizer of words")
}

#[test]
fn a_reference_that_makes_other_ids_or_marks_is_found() {
    let bos_and_eos = BosAndEos {
        eos: Eos::Never,
        bos: Bos::Auto,
        eos_id: None,
        bos_id: None,
        begin: None,
        end: None,
        frames_conversations: false,
    };
    let right = tokenizer(&["?", "river", "boat"]);
    let mut maker = DocumentMaker::new(&right, bos_and_eos.clone());
    let rendered = Rendered {
        text: "river boat".to_owned(),
        trained: Trained::Spans(vec![Span { range: 6..10, weight: 1.0 }]),
        ..Rendered::default()
    };
    let mut documents = Documents::new(Arc::from(Path::new("test")), &[INPUTS]);
    maker
        .make(&rendered, TextKind::Text, 1, &mut documents, &mut Ledger::default())
        .expect("a document");

    let agrees = |rendered: &Rendered, tokenizer: &Tokenizer| {
        maker.agrees(
            rendered,
            TextKind::Text,
            &mut DocumentMaker::new(tokenizer, bos_and_eos.clone()),
        )
    };
    assert!(agrees(&rendered, &right));
    assert!(!agrees(&rendered, &tokenizer(&["?", "boat", "river"])));
    let elsewhere = Trained::Spans(vec![Span { range: 0..5, weight: 1.0 }]);
    assert!(!agrees(&Rendered { trained: elsewhere, ..rendered.clone() }, &right));
}
