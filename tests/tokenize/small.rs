//! Small tokenizers that the tests build themselves.

use std::collections::BTreeSet;

use fastpack_tokenize::{Encoding, SpecialTokens, Tokenizer};
use serde_json::{Map, Value, json};

/// Every byte as the byte-level steps write it, by its value.
pub(crate) fn byte_letters() -> Vec<char> {
    let plain: BTreeSet<u32> = (33..=126).chain(161..=172).chain(174..=255).collect();
    let mut next = 256;
    (0..256)
        .map(|byte| {
            let code = if plain.contains(&byte) {
                byte
            } else {
                next += 1;
                next - 1
            };
            char::from_u32(code).expect("all below 512 and no surrogate")
        })
        .collect()
}

/// A byte-level BPE tokenizer with a few merges, NFC, `<s>` in front, and one added token.
pub(crate) fn bytes() -> Value {
    let mut vocab: Map<String, Value> = byte_letters()
        .into_iter()
        .enumerate()
        .map(|(id, letter)| (letter.to_string(), id.into()))
        .collect();
    let mut merges = Vec::new();
    for (left, right) in [("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("l", "l"), ("Ã", "©"), ("a", "b")]
    {
        let id = vocab.len();
        vocab.insert(format!("{left}{right}"), id.into());
        merges.push(json!([left, right]));
    }
    let next = vocab.len();
    json!({
        "version": "1.0",
        "truncation": {"max_length": 2, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "padding": null,
        "added_tokens": [
            added(next, "<s>", true),
            added(next + 1, "<|end|>", true),
            added(next + 2, "word", false),
        ],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": {"type": "Sequence", "processors": [
            {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
            {
                "type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [next], "tokens": ["<s>"]}},
            },
        ]},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocab, "merges": merges,
        },
    })
}

/// A tokenizer of pieces with byte fallback and a prepended `▁`.
pub(crate) fn pieces() -> Value {
    let mut vocab: Map<String, Value> =
        (0..256).map(|byte: u32| (format!("<0x{byte:02X}>"), byte.into())).collect();
    for piece in ["<unk>", "▁", "a", "b", "h", "i", "▁h", "▁hi", "ab"] {
        vocab.insert(piece.to_owned(), vocab.len().into());
    }
    json!({
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ]},
        "pre_tokenizer": null,
        "post_processor": null,
        "decoder": null,
        "model": {
            "type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
            "vocab": vocab, "merges": ["▁ h", "▁h i", "a b"],
        },
    })
}

/// An unigram tokenizer.
pub(crate) fn unigram() -> Value {
    json!({
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
        "post_processor": null,
        "decoder": null,
        "model": {
            "type": "Unigram", "unk_id": 0, "byte_fallback": false,
            "vocab": [["<unk>", 0.0], ["▁", -2.0], ["a", -3.0], ["b", -3.5], ["ab", -4.0], ["▁a", -4.5], ["▁ab", -5.0]],
        },
    })
}

/// A `WordPiece` tokenizer that lowercases.
pub(crate) fn words() -> Value {
    json!({
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": null,
        "decoder": null,
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
            "vocab": {"[UNK]": 0, "a": 1, "##a": 2, "b": 3, "##b": 4, "e": 5, "##e": 6, ".": 7},
        },
    })
}

/// All of them by name.
pub(crate) fn all() -> Vec<(&'static str, Value)> {
    vec![("bytes", bytes()), ("pieces", pieces()), ("unigram", unigram()), ("words", words())]
}

pub(crate) fn added(id: usize, content: &str, special: bool) -> Value {
    json!({
        "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": !special, "special": special,
    })
}

pub(crate) fn load(value: &Value) -> Tokenizer {
    Tokenizer::from_json(&value.to_string()).expect("a sound tokenizer")
}

/// Encodes one text with its spans.
pub(crate) fn encode(
    tokenizer: &Tokenizer,
    text: &str,
    spans: &[std::ops::Range<usize>],
    special: SpecialTokens,
) -> Encoding {
    let mut out = Encoding::default();
    tokenizer.encoder().encode(text, spans, special, &mut out).expect("every text has ids");
    out
}
