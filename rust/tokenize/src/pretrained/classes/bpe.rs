//! The classes with a byte-pair encoding model.

use serde_json::{Value, json};

use super::recipe::{
    ROBERTA_TOKENS, Recipe, keep_settings, literal, metaspace, nothing_more, regex, replace,
    set_roberta, tokenizer,
};
use crate::error::Result;
use crate::pretrained::backend::Backend;
use crate::pretrained::checked_vocabulary::CheckedVocabulary;
use crate::pretrained::settings::Settings;

/// The pattern of Qwen 2.
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The pattern of Qwen 3.5, in which marks count as letters.
const QWEN3_5: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The pattern of CLIP.
const CLIP: &str =
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+";

const END_OF_TEXT: Option<&str> = Some("<|endoftext|>");

pub(super) fn recipe(class: &str) -> Option<Recipe> {
    let plain =
        |defaults, build| Recipe { defaults, prepare: keep_settings, build, finish: nothing_more };
    Some(match class {
        "LlamaTokenizer" => plain(
            &[
                ("unk_token", Some("<unk>")),
                ("bos_token", Some("<s>")),
                ("eos_token", Some("</s>")),
            ],
            llama,
        ),
        "GemmaTokenizer" => plain(
            &[
                ("unk_token", Some("<unk>")),
                ("bos_token", Some("<bos>")),
                ("eos_token", Some("<eos>")),
                ("pad_token", Some("<pad>")),
                ("mask_token", Some("<mask>")),
            ],
            gemma,
        ),
        "Qwen2Tokenizer" => Recipe { finish: add_special_tokens, ..plain(QWEN_TOKENS, qwen2) },
        "Qwen3_5Tokenizer" => plain(QWEN_TOKENS, qwen3_5),
        "GPT2Tokenizer" | "CodeGenTokenizer" => plain(
            &[
                ("unk_token", END_OF_TEXT),
                ("bos_token", END_OF_TEXT),
                ("eos_token", END_OF_TEXT),
                ("pad_token", None),
            ],
            byte_level,
        ),
        "GPTNeoXTokenizer" => Recipe {
            finish: |backend, _| backend.rewrite_post_processor(),
            ..plain(
                &[
                    ("unk_token", END_OF_TEXT),
                    ("bos_token", END_OF_TEXT),
                    ("eos_token", END_OF_TEXT),
                    ("pad_token", Some("<|padding|>")),
                ],
                gpt_neox,
            )
        },
        "RobertaTokenizer" => {
            Recipe { finish: finish_roberta, ..plain(ROBERTA_TOKENS, byte_level) }
        }
        "CohereTokenizer" => Recipe {
            finish: |backend, _| backend.add_specials_again(),
            ..plain(
                &[
                    ("unk_token", Some("<UNK>")),
                    ("bos_token", Some("<BOS_TOKEN>")),
                    ("eos_token", Some("<|END_OF_TURN_TOKEN|>")),
                    ("pad_token", Some("<PAD>")),
                    ("cls_token", Some("<CLS>")),
                    ("sep_token", Some("<SEP>")),
                    ("mask_token", Some("<MASK_TOKEN>")),
                ],
                cohere,
            )
        },
        "CLIPTokenizer" => Recipe {
            finish: finish_clip,
            ..plain(
                &[
                    ("unk_token", END_OF_TEXT),
                    ("bos_token", Some("<|startoftext|>")),
                    ("eos_token", END_OF_TEXT),
                    ("pad_token", END_OF_TEXT),
                ],
                clip,
            )
        },
        _ => return None,
    })
}

const QWEN_TOKENS: &[(&str, Option<&str>)] = &[
    ("unk_token", END_OF_TEXT),
    ("bos_token", None),
    ("eos_token", END_OF_TEXT),
    ("pad_token", END_OF_TEXT),
];

/// A BPE model with a class's options.
fn model(vocabulary: &CheckedVocabulary<'_>, options: Value) -> Value {
    let mut model = json!({"type": "BPE", "dropout": null});
    if let (Value::Object(model), Value::Object(options)) = (&mut model, options) {
        model.extend(options);
        model.insert("vocab".to_owned(), vocabulary.ids());
        model.insert("merges".to_owned(), vocabulary.merges());
    }
    model
}

/// The decoder for pieces that write a space as `▁`.
fn piece_decoder(strip: bool) -> Value {
    let mut steps =
        vec![replace(&literal("▁"), " "), json!({"type": "ByteFallback"}), json!({"type": "Fuse"})];
    if strip {
        steps.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    json!({"type": "Sequence", "decoders": steps})
}

fn byte_decoder() -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true})
}

fn bytes(prefix_space: bool, use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": prefix_space, "trim_offsets": true, "use_regex": use_regex})
}

fn llama(settings: &Settings, vocabulary: &CheckedVocabulary<'_>) -> Result<Value> {
    let spaced = settings.optional_flag("add_prefix_space")?.unwrap_or(true);
    let legacy = settings.optional_flag("legacy")?.unwrap_or(false);
    let scheme = match (spaced, legacy) {
        (false, _) => "never",
        (true, true) => "always",
        (true, false) => "first",
    };
    let model = model(vocabulary, json!({"fuse_unk": true, "byte_fallback": true}));
    Ok(tokenizer(Value::Null, metaspace(scheme, false), piece_decoder(spaced), model))
}

fn gemma(settings: &Settings, vocabulary: &CheckedVocabulary<'_>) -> Result<Value> {
    let unk = settings.content("unk_token")?;
    let model =
        model(vocabulary, json!({"fuse_unk": true, "byte_fallback": true, "unk_token": unk}));
    let split = json!({"type": "Split", "pattern": literal(" "), "behavior": "MergedWithPrevious", "invert": false});
    Ok(tokenizer(replace(&literal(" "), "▁"), split, piece_decoder(false), model))
}

fn qwen(settings: &Settings, vocabulary: &CheckedVocabulary<'_>, pattern: &str) -> Result<Value> {
    let spaced = settings.optional_flag("add_prefix_space")?.unwrap_or(false);
    let split = json!({"type": "Split", "pattern": regex(pattern), "behavior": "Isolated", "invert": false});
    let steps = json!({"type": "Sequence", "pretokenizers": [split, bytes(spaced, false)]});
    Ok(tokenizer(json!({"type": "NFC"}), steps, byte_decoder(), plain_model(vocabulary)))
}

fn qwen2(settings: &Settings, vocabulary: &CheckedVocabulary<'_>) -> Result<Value> {
    qwen(settings, vocabulary, QWEN2)
}

fn qwen3_5(settings: &Settings, vocabulary: &CheckedVocabulary<'_>) -> Result<Value> {
    qwen(settings, vocabulary, QWEN3_5)
}

fn add_special_tokens(backend: &mut Backend, _: &Settings) -> Result<()> {
    let tokens = backend
        .all_special()
        .into_iter()
        .map(|content| tokenizers::AddedToken::from(content, true));
    let tokens = tokens.collect();
    backend.add(tokens)
}

/// The model of the byte-level classes.
fn plain_model(vocabulary: &CheckedVocabulary<'_>) -> Value {
    model(
        vocabulary,
        json!({"continuing_subword_prefix": "", "end_of_word_suffix": "", "fuse_unk": false}),
    )
}

fn byte_level(settings: &Settings, vocabulary: &CheckedVocabulary<'_>) -> Result<Value> {
    let spaced = settings.flag("add_prefix_space", false)?;
    Ok(tokenizer(Value::Null, bytes(spaced, true), byte_decoder(), plain_model(vocabulary)))
}

fn gpt_neox(settings: &Settings, vocabulary: &CheckedVocabulary<'_>) -> Result<Value> {
    let spaced = settings.flag("add_prefix_space", false)?;
    Ok(tokenizer(
        json!({"type": "NFC"}),
        bytes(spaced, true),
        byte_decoder(),
        plain_model(vocabulary),
    ))
}

fn finish_roberta(backend: &mut Backend, settings: &Settings) -> Result<()> {
    let spaced = settings.flag("add_prefix_space", false)?;
    let trims = settings.flag("trim_offsets", true)?;
    set_roberta(backend, ["cls_token", "sep_token"], trims, spaced)
}

fn cohere(settings: &Settings, vocabulary: &CheckedVocabulary<'_>) -> Result<Value> {
    let spaced = settings.flag("add_prefix_space", false)?;
    let digits = json!({"type": "Digits", "individual_digits": true});
    let steps = json!({"type": "Sequence", "pretokenizers": [digits, bytes(spaced, true)]});
    Ok(tokenizer(json!({"type": "NFC"}), steps, byte_decoder(), plain_model(vocabulary)))
}

fn clip(settings: &Settings, vocabulary: &CheckedVocabulary<'_>) -> Result<Value> {
    let unk = settings.content("unk_token")?;
    let model = model(
        vocabulary,
        json!({"continuing_subword_prefix": "", "end_of_word_suffix": "</w>", "fuse_unk": false, "unk_token": unk}),
    );
    let normalizer = json!({"type": "Sequence", "normalizers": [
        {"type": "NFC"}, replace(&regex(r"\s+"), " "), {"type": "Lowercase"},
    ]});
    let split =
        json!({"type": "Split", "pattern": regex(CLIP), "behavior": "Removed", "invert": true});
    let steps = json!({"type": "Sequence", "pretokenizers": [split, bytes(false, true)]});
    Ok(tokenizer(normalizer, steps, byte_decoder(), model))
}

fn finish_clip(backend: &mut Backend, _: &Settings) -> Result<()> {
    set_roberta(backend, ["bos_token", "eos_token"], false, false)
}
