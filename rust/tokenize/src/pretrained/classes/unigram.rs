//! The classes with a unigram model.

use serde_json::{Value, json};

use super::recipe::{ROBERTA_TOKENS, Recipe, keep_settings, metaspace, tokenizer};
use crate::error::Result;
use crate::pretrained::backend::{Backend, PairTemplate, TemplatePiece};
use crate::pretrained::checked_vocabulary::CheckedVocabulary;
use crate::pretrained::settings::Settings;
use crate::pretrained::token::TokenSetting;

pub(super) fn recipe(class: &str) -> Option<Recipe> {
    Some(match class {
        "T5Tokenizer" => Recipe {
            defaults: &[
                ("eos_token", Some("</s>")),
                ("unk_token", Some("<unk>")),
                ("pad_token", Some("<pad>")),
            ],
            prepare: prepare_t5,
            build: t5,
            finish: finish_t5,
        },
        "XLMRobertaTokenizer" => Recipe {
            defaults: ROBERTA_TOKENS,
            prepare: keep_settings,
            build: xlm_roberta,
            finish: frame_in_bos_and_eos,
        },
        _ => return None,
    })
}

fn model(vocabulary: &CheckedVocabulary<'_>, unk_id: u64) -> Result<Value> {
    Ok(
        json!({"type": "Unigram", "unk_id": unk_id, "byte_fallback": false, "vocab": vocabulary.pieces()?}),
    )
}

/// A pre-tokenizer that splits at whitespace and puts `▁` in front of words.
fn spaced_words(scheme: &str) -> Value {
    json!({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace(scheme, true)]})
}

/// `add_prefix_space`: true by default, and false for null.
fn scheme(settings: &Settings) -> Result<&'static str> {
    let flag = settings.optional_flag("add_prefix_space")?;
    let is_spaced = flag.unwrap_or(!settings.contains("add_prefix_space"));
    Ok(if is_spaced { "always" } else { "never" })
}

fn frame_in_bos_and_eos(backend: &mut Backend, _: &Settings) -> Result<()> {
    let (bos, eos) = (backend.required("bos_token")?, backend.required("eos_token")?);
    backend.set_template(&bos, &eos, PairTemplate::Doubled)
}

fn prepare_t5(settings: &mut Settings) -> Result<()> {
    let count = match settings.get("extra_ids") {
        None => 100,
        Some(count) => {
            count.as_u64().ok_or_else(|| settings.malformed("extra_ids", "must be a count"))?
        }
    };
    let sentinels = (0..count).map(|index| Value::String(format!("<extra_id_{index}>")));
    let tokens: Vec<Value> = match settings.list("additional_special_tokens")? {
        None => sentinels.collect(),
        Some(listed) => {
            let own = listed.iter().filter(|token| token.content().contains("<extra_id_")).count();
            if own > 0 && count > 0 && u64::try_from(own) != Ok(count) {
                return Err(
                    settings.malformed("extra_ids", "disagrees with `additional_special_tokens`")
                );
            }
            let listed = listed.iter().map(TokenSetting::to_value);
            if own == 0 { listed.chain(sentinels).collect() } else { listed.collect() }
        }
    };
    settings.set("additional_special_tokens", Value::Array(tokens));
    Ok(())
}

fn t5(_: &Settings, vocabulary: &CheckedVocabulary<'_>) -> Result<Value> {
    let normalizer = vocabulary.charsmap().unwrap_or_default();
    Ok(tokenizer(
        normalizer,
        spaced_words("always"),
        metaspace("always", true),
        model(vocabulary, 2)?,
    ))
}

/// Sets T5's template. It names `</s>` whatever the token's content is, with the id of `eos_token`.
fn finish_t5(backend: &mut Backend, _: &Settings) -> Result<()> {
    let id = backend.known_id(&backend.required("eos_token")?)?;
    backend.set_pieces(
        &[TemplatePiece::Text, TemplatePiece::Token("</s>", id)],
        PairTemplate::Followed(0),
    )
}

fn xlm_roberta(settings: &Settings, vocabulary: &CheckedVocabulary<'_>) -> Result<Value> {
    let scheme = scheme(settings)?;
    let normalizer = vocabulary.charsmap().unwrap_or_default();
    Ok(tokenizer(normalizer, spaced_words(scheme), metaspace(scheme, true), model(vocabulary, 3)?))
}
