//! Classes with a `WordPiece` model.

use serde_json::{Value, json};

use super::{Recipe, as_added, as_given, as_in_file, frame_as_bert, set_roberta, tokenizer};
use crate::error::Result;
use crate::pretrained::backend::{Backend, TemplatePiece};
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
            finish: frame_as_bert,
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
            finish: finish_splinter,
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
            finish: finish_funnel,
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

/// Sets Splinter's templates: of two texts, the question ends in a token of its own and a full stop.
fn finish_splinter(backend: &mut Backend, settings: &Settings) -> Result<()> {
    let names = ["cls_token", "sep_token", "question_token"];
    let [cls, sep, question] = names.map(|name| backend.required(name));
    let (cls, sep, question) = (cls?, sep?, question?);
    let ids = [&cls, &sep, &question].map(|content| backend.known_id(content));
    let [cls_id, sep_id, question_id] = ids;
    let token = |content, id, kind: u32| (TemplatePiece::Token(content, id), kind);
    let (cls, sep_id, question_id) = (token(cls.as_str(), cls_id?, 0), sep_id?, question_id?);
    let (sep, dot_id) = (sep.as_str(), backend.known_id(".")?);
    let question = question.as_str();
    let ending = |kind| [token(question, question_id, kind), token(".", dot_id, kind)];
    let [first, second] = [(TemplatePiece::Text, 0), (TemplatePiece::Second, 1)];
    let single = [cls, first, token(sep, sep_id, 0)];
    let left = settings.get("padding_side").and_then(Value::as_str) == Some("left");
    let mut pair = vec![cls, first];
    pair.extend(ending(0).into_iter().filter(|_| !left));
    pair.extend([token(sep, sep_id, 0), second]);
    pair.extend(ending(1).into_iter().filter(|_| left));
    pair.push(token(sep, sep_id, 1));
    backend.set_parts(&single, &pair)
}

/// Sets Funnel's template, whose first token has a type of its own.
fn finish_funnel(backend: &mut Backend, _: &Settings) -> Result<()> {
    let (cls, sep) = (backend.required("cls_token")?, backend.required("sep_token")?);
    let cls = (TemplatePiece::Token(&cls, backend.known_id(&cls)?), 2);
    let sep_id = backend.known_id(&sep)?;
    let sep = |kind: u32| (TemplatePiece::Token(&sep, sep_id), kind);
    let [first, second] = [(TemplatePiece::Text, 0), (TemplatePiece::Second, 1)];
    backend.set_parts(&[cls, first, sep(0)], &[cls, first, sep(0), second, sep(1)])
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
