//! Classes with a `WordPiece` model.

use serde_json::{Value, json};

use super::{Recipe, as_added, as_given, as_in_file, frame_in_cls_and_sep, set_roberta, tokenizer};
use crate::error::Result;
use crate::pretrained::backend::Backend;
use crate::pretrained::settings::Settings;
use crate::pretrained::vocabulary::Vocabulary;

pub(super) fn recipe(class: &str) -> Option<Recipe> {
    Some(match class {
        "BertTokenizer" | "DistilBertTokenizer" => Recipe {
            defaults: &[
                ("unk_token", Some("[UNK]")),
                ("sep_token", Some("[SEP]")),
                ("pad_token", Some("[PAD]")),
                ("cls_token", Some("[CLS]")),
                ("mask_token", Some("[MASK]")),
            ],
            prepare: as_given,
            build: bert,
            finish: frame_in_cls_and_sep,
        },
        "DPRContextEncoderTokenizer" | "DPRQuestionEncoderTokenizer" | "DPRReaderTokenizer" => {
            Recipe { prepare: prepare_dpr, ..recipe("BertTokenizer")? }
        }
        "ConvBertTokenizer"
        | "DPRContextEncoderTokenizerFast"
        | "DPRQuestionEncoderTokenizerFast"
        | "DPRReaderTokenizerFast" => Recipe { build: as_in_file, ..recipe("BertTokenizer")? },
        "SplinterTokenizer" => Recipe {
            defaults: &[
                ("unk_token", Some("[UNK]")),
                ("sep_token", Some("[SEP]")),
                ("pad_token", Some("[PAD]")),
                ("cls_token", Some("[CLS]")),
                ("mask_token", Some("[MASK]")),
                ("question_token", Some("[QUESTION]")),
            ],
            ..recipe("BertTokenizer")?
        },
        "FunnelTokenizer" => Recipe {
            defaults: &[
                ("unk_token", Some("<unk>")),
                ("sep_token", Some("<sep>")),
                ("pad_token", Some("<pad>")),
                ("cls_token", Some("<cls>")),
                ("mask_token", Some("<mask>")),
                ("bos_token", Some("<s>")),
                ("eos_token", Some("</s>")),
            ],
            prepare: as_given,
            build: funnel,
            finish: frame_in_cls_and_sep,
        },
        "MPNetTokenizer" => Recipe {
            defaults: &[
                ("bos_token", Some("<s>")),
                ("eos_token", Some("</s>")),
                ("sep_token", Some("</s>")),
                ("cls_token", Some("<s>")),
                ("unk_token", Some("[UNK]")),
                ("pad_token", Some("<pad>")),
                ("mask_token", Some("<mask>")),
            ],
            prepare: prepare_mpnet,
            build: bert,
            finish: finish_mpnet,
        },
        _ => return None,
    })
}

fn bert(settings: &Settings, vocabulary: &Vocabulary<'_>) -> Result<Value> {
    cleaned(settings, vocabulary, true)
}

/// Builds Funnel's engine; no other class reads `clean_text`.
fn funnel(settings: &Settings, vocabulary: &Vocabulary<'_>) -> Result<Value> {
    cleaned(settings, vocabulary, settings.flag("clean_text", true)?)
}

fn cleaned(settings: &Settings, vocabulary: &Vocabulary<'_>, clean: bool) -> Result<Value> {
    let normalizer = json!({
        "type": "BertNormalizer",
        "clean_text": clean,
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

/// Drops `do_lower_case`, which DPR takes and does not pass on.
#[expect(clippy::unnecessary_wraps, reason = "other classes can fail here")]
fn prepare_dpr(settings: &mut Settings) -> Result<()> {
    settings.remove("do_lower_case");
    Ok(())
}

fn prepare_mpnet(settings: &mut Settings) -> Result<()> {
    for name in ["bos_token", "eos_token", "sep_token", "cls_token", "unk_token", "pad_token"] {
        as_added(settings, name, |_| {})?;
    }
    as_added(settings, "mask_token", |token| token.lstrip = true)
}

fn finish_mpnet(backend: &mut Backend, _: &Settings) -> Result<()> {
    set_roberta(backend, ["cls_token", "sep_token"], true, false)
}
