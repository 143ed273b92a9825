//! Documents are the same with the ids of the template's literals ready as without.

use std::path::Path;
use std::sync::Arc;

use fastpack_core::config::{Bos, Eos};
use fastpack_core::document::bos_and_eos::{BosAndEos, TextKind};
use fastpack_core::document::tokenize::DocumentMaker;
use fastpack_core::document::{Documents, INPUTS};
use fastpack_core::report::ledger::Ledger;
use fastpack_core::template::{Rendered, Span, Trained};
use fastpack_tokenize::{Engine, Tokenizer};
use proptest::prelude::*;

fn tokenizer() -> Tokenizer {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tokenizer/tokenizer.json");
    let json = std::fs::read_to_string(path).expect("the example is there");
    let tokenizer = Tokenizer::from_json(&json).expect("a tokenizer");
    assert_eq!(tokenizer.engine(), Engine::Compiled);
    tokenizer
}

/// A text of pieces, every other of which stands in a template; and its trained pieces.
fn rendered(pieces: &[String], trained: &[usize]) -> Rendered {
    let mut rendered = Rendered::default();
    let mut spans: Vec<Span> = Vec::new();
    for (number, piece) in pieces.iter().enumerate() {
        let start = rendered.text.len();
        rendered.text.push_str(piece);
        if number % 2 == 0 {
            rendered.literals.push(start..rendered.text.len());
        }
        if trained.contains(&number) {
            spans.push(Span { range: start..rendered.text.len(), weight: 1.0 });
        }
    }
    rendered.trained = Trained::Spans(spans);
    rendered
}

proptest! {
    #[test]
    fn documents_are_the_same_whether_literals_are_known(
        pieces in prop::collection::vec("([ a.]|user|\n|<\\|start\\|>|<\\|end\\|>|<\\|endoftext\\|>|<|\\|>|start){0,6}", 1..9),
        trained in prop::collection::vec(0_usize..9, 0..5),
    ) {
        let bos_and_eos = BosAndEos { eos: Eos::Always, bos: Bos::Auto, eos_id: Some(0), bos_id: None, begin: None, end: None, frames_conversations: false };
        let (tokenizer, mut ledger) = (tokenizer(), Ledger::default());
        let (mut with, mut without) =
            (DocumentMaker::new(&tokenizer, bos_and_eos.clone()), DocumentMaker::new(&tokenizer, bos_and_eos));
        let known = rendered(&pieces, &trained);
        let unknown = Rendered { literals: Vec::new(), ..known.clone() };
        let [mut a, mut b] = [(), ()].map(|()| Documents::new(Arc::from(Path::new("test")), &[INPUTS]));
        // The second time, all that it holds of literals was looked up before.
        for line in 1..=2 {
            let made = with.make(&known, TextKind::Conversation, line, &mut a, &mut ledger);
            let expected = without.make(&unknown, TextKind::Conversation, line, &mut b, &mut ledger);
            prop_assert_eq!(made.is_ok(), expected.is_ok());
        }
        prop_assert_eq!(a.len(), b.len());
        for (a, b) in a.iter().zip(b.iter()) {
            prop_assert_eq!(a.column(INPUTS), b.column(INPUTS));
            prop_assert_eq!(a.trained(), b.trained());
        }
    }
}
