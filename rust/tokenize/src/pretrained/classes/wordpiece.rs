//! The classes with a `WordPiece` model.

use serde_json::{Value, json};

use super::recipe::{Recipe, keep_settings, tokenizer};
use crate::error::Result;
use crate::pretrained::backend::{Backend, PairTemplate};
use crate::pretrained::checked_vocabulary::CheckedVocabulary;
use crate::pretrained::settings::Settings;

pub(super) fn recipe(class: &str) -> Option<Recipe> {
    matches!(class, "BertTokenizer" | "DistilBertTokenizer").then_some(Recipe {
        defaults: &[
            ("unk_token", Some("[UNK]")),
            ("sep_token", Some("[SEP]")),
            ("pad_token", Some("[PAD]")),
            ("cls_token", Some("[CLS]")),
            ("mask_token", Some("[MASK]")),
        ],
        prepare: keep_settings,
        build: bert,
        finish: frame_in_cls_and_sep,
    })
}

fn bert(settings: &Settings, vocabulary: &CheckedVocabulary<'_>) -> Result<Value> {
    let normalizer = json!({
        "type": "BertNormalizer",
        "clean_text": true,
        "handle_chinese_chars": settings.flag("tokenize_chinese_chars", true)?,
        "strip_accents": settings.optional_flag("strip_accents")?,
        "lowercase": settings.flag("do_lower_case", true)?,
    });
    let model = json!({
        "type": "WordPiece",
        "unk_token": settings.content("unk_token")?,
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": vocabulary.ids(),
    });
    let decoder = json!({"type": "WordPiece", "prefix": "##", "cleanup": true});
    Ok(tokenizer(normalizer, json!({"type": "BertPreTokenizer"}), decoder, model))
}

/// Puts `cls_token` before a text and `sep_token` after it; a second text and its `sep_token` have the type 1.
fn frame_in_cls_and_sep(backend: &mut Backend, _: &Settings) -> Result<()> {
    let (cls, sep) = (backend.required("cls_token")?, backend.required("sep_token")?);
    backend.set_template(&cls, &sep, PairTemplate::Followed(1))
}
