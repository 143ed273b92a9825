//! Classes with a unigram model.

use serde_json::{Value, json};

use super::{
    ROBERTA_TOKENS, Recipe, as_added, as_given, as_in_file, frame_as_bert, literal, metaspace,
    nothing_more, regex, replace, tokenizer,
};
use crate::error::Result;
use crate::loading::load::malformed;
use crate::pretrained::backend::{Backend, PairTemplate, TemplatePiece};
use crate::pretrained::settings::Settings;
use crate::pretrained::token::Token;
use crate::pretrained::vocabulary::Vocabulary;

const ALBERT_TOKENS: &[(&str, Option<&str>)] = &[
    ("bos_token", Some("[CLS]")),
    ("eos_token", Some("[SEP]")),
    ("unk_token", Some("<unk>")),
    ("sep_token", Some("[SEP]")),
    ("pad_token", Some("<pad>")),
    ("cls_token", Some("[CLS]")),
    ("mask_token", Some("[MASK]")),
];

pub(super) fn recipe(class: &str) -> Option<Recipe> {
    let plain = |defaults, build, finish| Recipe { defaults, prepare: as_given, build, finish };
    Some(match class {
        "T5Tokenizer" => Recipe {
            prepare: prepare_t5,
            ..plain(
                &[
                    ("eos_token", Some("</s>")),
                    ("unk_token", Some("<unk>")),
                    ("pad_token", Some("<pad>")),
                ],
                t5,
                finish_t5,
            )
        },
        "XLMRobertaTokenizer" => plain(ROBERTA_TOKENS, xlm_roberta, frame_in_bos_and_eos),
        "CamembertTokenizer" => Recipe {
            prepare: prepare_camembert,
            ..plain(ROBERTA_TOKENS, camembert, frame_in_bos_and_eos)
        },
        "BarthezTokenizer" => {
            Recipe { prepare: mask_strips_left, ..plain(ROBERTA_TOKENS, barthez, nothing_more) }
        }
        "FNetTokenizer" => plain(ALBERT_TOKENS, as_in_file, nothing_more),
        "AlbertTokenizer" => plain(ALBERT_TOKENS, albert, finish_albert),
        "RemBertTokenizer" => plain(ALBERT_TOKENS, rembert, finish_rembert),
        "DebertaV2Tokenizer" => plain(
            &[
                ("bos_token", Some("[CLS]")),
                ("eos_token", Some("[SEP]")),
                ("unk_token", Some("[UNK]")),
                ("sep_token", Some("[SEP]")),
                ("cls_token", Some("[CLS]")),
                ("pad_token", Some("[PAD]")),
                ("mask_token", Some("[MASK]")),
            ],
            deberta_v2,
            frame_as_bert,
        ),
        "XLNetTokenizer" => Recipe {
            prepare: prepare_xlnet,
            ..plain(
                &[
                    ("bos_token", Some("<s>")),
                    ("eos_token", Some("</s>")),
                    ("unk_token", Some("<unk>")),
                    ("sep_token", Some("<sep>")),
                    ("pad_token", Some("<pad>")),
                    ("cls_token", Some("<cls>")),
                    ("mask_token", Some("<mask>")),
                ],
                xlnet,
                finish_xlnet,
            )
        },
        _ => return None,
    })
}

pub(super) fn model(vocabulary: &Vocabulary<'_>, unk_id: u64) -> Result<Value> {
    Ok(
        json!({"type": "Unigram", "unk_id": unk_id, "byte_fallback": false, "vocab": vocabulary.pieces()?}),
    )
}

pub(super) fn sequence(steps: &[Value]) -> Value {
    json!({"type": "Sequence", "normalizers": steps})
}

/// A pre-tokenizer that splits at whitespace and puts `▁` in front of words.
pub(super) fn spaced_words(scheme: &str) -> Value {
    json!({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace(scheme, true)]})
}

/// `add_prefix_space`: true by default, and false for null.
fn is_spaced(settings: &Settings) -> Result<bool> {
    let given = settings.optional_flag("add_prefix_space")?;
    Ok(given.unwrap_or(!settings.contains("add_prefix_space")))
}

pub(super) fn scheme(settings: &Settings) -> Result<&'static str> {
    Ok(if is_spaced(settings)? { "always" } else { "never" })
}

fn frame_in_bos_and_eos(backend: &mut Backend, _: &Settings) -> Result<()> {
    let (bos, eos) = (backend.required("bos_token")?, backend.required("eos_token")?);
    backend.set_template(&bos, &eos, PairTemplate::Doubled)
}

pub(super) fn prepare_t5(settings: &mut Settings) -> Result<()> {
    let count = match settings.get("extra_ids") {
        None => 100,
        Some(count) => {
            count.as_u64().ok_or_else(|| settings.malformed("extra_ids", "must be a count"))?
        }
    };
    let sentinels = (0..count).map(|index| Value::String(format!("<extra_id_{index}>")));
    let tokens: Vec<Value> = match settings.list("additional_special_tokens")? {
        None => sentinels.collect(),
        Some(given) => {
            let own = given.iter().filter(|token| token.content().contains("<extra_id_")).count();
            if own > 0 && count > 0 && u64::try_from(own) != Ok(count) {
                return Err(
                    settings.malformed("extra_ids", "disagrees with `additional_special_tokens`")
                );
            }
            let given = given.iter().map(Token::to_value);
            if own == 0 { given.chain(sentinels).collect() } else { given.collect() }
        }
    };
    settings.set("additional_special_tokens", Value::Array(tokens));
    Ok(())
}

pub(super) fn t5(_: &Settings, vocabulary: &Vocabulary<'_>) -> Result<Value> {
    let normalizer = vocabulary.charsmap().unwrap_or_default();
    Ok(tokenizer(
        normalizer,
        spaced_words("always"),
        metaspace("always", true),
        model(vocabulary, 2)?,
    ))
}

/// Sets T5's template. It names `</s>` whatever the token's content is, with the id of `eos_token`.
pub(super) fn finish_t5(backend: &mut Backend, _: &Settings) -> Result<()> {
    let id = backend.known_id(&backend.required("eos_token")?)?;
    backend.set_pieces(
        &[TemplatePiece::Text, TemplatePiece::Token("</s>", id)],
        PairTemplate::Followed(0),
    )
}

fn xlm_roberta(settings: &Settings, vocabulary: &Vocabulary<'_>) -> Result<Value> {
    let scheme = scheme(settings)?;
    let normalizer = vocabulary.charsmap().unwrap_or_default();
    Ok(tokenizer(normalizer, spaced_words(scheme), metaspace(scheme, true), model(vocabulary, 3)?))
}

pub(super) fn mask_strips_left(settings: &mut Settings) -> Result<()> {
    as_added(settings, "mask_token", |token| token.lstrip = true)
}

fn prepare_camembert(settings: &mut Settings) -> Result<()> {
    as_added(settings, "mask_token", |token| {
        token.lstrip = true;
        token.special = true;
    })?;
    if settings.get("additional_special_tokens").is_none() {
        settings
            .set("additional_special_tokens", json!(["<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"]));
    }
    Ok(())
}

fn camembert(settings: &Settings, vocabulary: &Vocabulary<'_>) -> Result<Value> {
    let scheme = scheme(settings)?;
    let unk = settings.content("unk_token")?;
    let unk_id = position(vocabulary, |piece, _| piece == unk)?.unwrap_or(0);
    let normalizer = vocabulary.charsmap().unwrap_or_default();
    Ok(tokenizer(
        normalizer,
        spaced_words(scheme),
        metaspace(scheme, true),
        model(vocabulary, unk_id)?,
    ))
}

/// The index of the first piece that `fits` accepts.
pub(super) fn position(
    vocabulary: &Vocabulary<'_>,
    mut fits: impl FnMut(&str, f64) -> bool,
) -> Result<Option<u64>> {
    let index = vocabulary.pieces()?.iter().position(|(piece, score)| fits(piece, *score));
    Ok(index.and_then(|index| u64::try_from(index).ok()))
}

fn barthez(settings: &Settings, vocabulary: &Vocabulary<'_>) -> Result<Value> {
    let scheme = scheme(settings)?;
    Ok(tokenizer(
        sequence(&clean_lines()),
        metaspace(scheme, true),
        metaspace(scheme, true),
        model(vocabulary, 3)?,
    ))
}

/// Normalizers that join lines, apply NFC and strip spaces at the end.
fn clean_lines() -> Vec<Value> {
    vec![
        replace(&regex(r"\s{2,}|[\n\r\t]"), " "),
        json!({"type": "NFC"}),
        json!({"type": "Strip", "strip_left": false, "strip_right": true}),
    ]
}

/// Normalizers that make straight quotes.
fn quotes() -> Vec<Value> {
    vec![replace(&literal("``"), "\""), replace(&literal("''"), "\"")]
}

fn drop_accents(steps: &mut Vec<Value>) {
    steps.push(json!({"type": "NFKD"}));
    steps.push(json!({"type": "StripAccents"}));
}

fn albert(settings: &Settings, vocabulary: &Vocabulary<'_>) -> Result<Value> {
    let scheme = scheme(settings)?;
    let mut steps = quotes();
    if !settings.flag("keep_accents", false)? {
        drop_accents(&mut steps);
    }
    if settings.flag("do_lower_case", true)? {
        steps.push(json!({"type": "Lowercase"}));
    }
    steps.extend(vocabulary.charsmap());
    Ok(tokenizer(
        sequence(&steps),
        spaced_words(scheme),
        metaspace(scheme, true),
        model(vocabulary, 1)?,
    ))
}

/// Sets ALBERT's template, unless the file has a post-processor, or the folder says which tokens stand around a text:
/// the class itself lets both replace it.
fn finish_albert(backend: &mut Backend, settings: &Settings) -> Result<()> {
    let says = ["add_bos_token", "add_eos_token"].iter().any(|name| settings.contains(name));
    if backend.kept_post_processor || says {
        return Ok(());
    }
    let (cls, sep) = (settings.content("cls_token")?, settings.content("sep_token")?);
    let model_id = |content: &str| {
        let id = tokenizers::Model::token_to_id(backend.engine.get_model(), content);
        id.ok_or_else(|| {
            malformed("model.vocab", format!("lacks `{content}`, which the class needs"))
        })
    };
    let (cls, sep) = (model_id(&cls)?, model_id(&sep)?);
    let pieces = [
        TemplatePiece::Token("[CLS]", cls),
        TemplatePiece::Text,
        TemplatePiece::Token("[SEP]", sep),
    ];
    backend.set_pieces(&pieces, PairTemplate::Followed(1))
}

fn rembert(settings: &Settings, vocabulary: &Vocabulary<'_>) -> Result<Value> {
    let scheme = scheme(settings)?;
    let mut steps = quotes();
    steps.push(replace(&regex(" {2,}"), " "));
    if !settings.flag("keep_accents", true)? {
        drop_accents(&mut steps);
    }
    if settings.flag("do_lower_case", false)? {
        steps.push(json!({"type": "Lowercase"}));
    }
    steps.extend(vocabulary.charsmap());
    Ok(tokenizer(
        sequence(&steps),
        metaspace(scheme, true),
        metaspace(scheme, true),
        model(vocabulary, 2)?,
    ))
}

fn finish_rembert(backend: &mut Backend, settings: &Settings) -> Result<()> {
    frame_as_bert(backend, settings)?;
    backend.add_specials_again()
}

fn deberta_v2(settings: &Settings, vocabulary: &Vocabulary<'_>) -> Result<Value> {
    let unk = settings.content("unk_token")?;
    let given = match settings.get("unk_id") {
        None => 1,
        Some(id) => id.as_u64().ok_or_else(|| settings.malformed("unk_id", "must be an id"))?,
    };
    let unk_id =
        position(vocabulary, |piece, score| piece == unk && score == 0.0)?.unwrap_or(given);
    let mut steps = Vec::new();
    if settings.flag("do_lower_case", false)? {
        steps.push(json!({"type": "Lowercase"}));
    }
    steps.extend(clean_lines());
    let scheme = if is_spaced(settings)? { "always" } else { "first" };
    let mut cuts = Vec::new();
    if settings.flag("split_by_punct", false)? {
        cuts.push(json!({"type": "Punctuation", "behavior": "Isolated"}));
    }
    cuts.push(metaspace(scheme, true));
    let cuts = json!({"type": "Sequence", "pretokenizers": cuts});
    Ok(tokenizer(sequence(&steps), cuts, metaspace(scheme, true), model(vocabulary, unk_id)?))
}

fn prepare_xlnet(settings: &mut Settings) -> Result<()> {
    mask_strips_left(settings)?;
    if settings.get("additional_special_tokens").is_none() {
        settings.set("additional_special_tokens", json!(["<eop>", "<eod>"]));
    }
    Ok(())
}

fn xlnet(settings: &Settings, vocabulary: &Vocabulary<'_>) -> Result<Value> {
    let unk_id = match settings.get("unk_id") {
        None => 0,
        Some(id) => id.as_u64().ok_or_else(|| settings.malformed("unk_id", "must be an id"))?,
    };
    let mut steps = quotes();
    drop_accents(&mut steps);
    if settings.flag("do_lower_case", false)? {
        steps.push(json!({"type": "Lowercase"}));
    }
    steps.extend(vocabulary.charsmap());
    Ok(tokenizer(
        sequence(&steps),
        spaced_words("always"),
        metaspace("always", true),
        model(vocabulary, unk_id)?,
    ))
}

fn finish_xlnet(backend: &mut Backend, _: &Settings) -> Result<()> {
    let (sep, cls) = (backend.required("sep_token")?, backend.required("cls_token")?);
    let (sep_id, cls_id) = (backend.known_id(&sep)?, backend.known_id(&cls)?);
    let [first, second] = [(TemplatePiece::Text, 0), (TemplatePiece::Second, 1)];
    let sep = |kind: u32| (TemplatePiece::Token(&sep, sep_id), kind);
    let cls = (TemplatePiece::Token(&cls, cls_id), 2);
    backend.set_parts(&[first, sep(0), cls], &[first, sep(0), second, sep(1), cls])
}
