//! Classes for translation, which put language tokens around a text.

use serde_json::{Value, json};

use super::languages::{MBART, MBART50, NLLB};
use super::unigram::{self, sequence, spaced_words};
use super::{
    ROBERTA_TOKENS, Recipe, as_added, bpe, frame, metaspace, regex, replace, text, tokenizer,
};
use crate::error::Result;
use crate::pretrained::backend::{Backend, PairTemplate};
use crate::pretrained::settings::Settings;
use crate::pretrained::vocabulary::Vocabulary;

pub(super) fn recipe(class: &str) -> Option<Recipe> {
    Some(match class {
        "MBartTokenizer" => Recipe {
            defaults: ROBERTA_TOKENS,
            prepare: prepare_mbart,
            build: mbart,
            finish: |backend, settings| {
                let language = language(backend, settings, "src_lang", "en_XX")?;
                let eos = eos(backend)?;
                frame(backend, &[], &[eos, language], PairTemplate::Joined(0))
            },
        },
        "MBart50Tokenizer" => Recipe {
            defaults: &[
                ("eos_token", Some("</s>")),
                ("sep_token", Some("</s>")),
                ("cls_token", Some("<s>")),
                ("unk_token", Some("<unk>")),
                ("pad_token", Some("<pad>")),
                ("mask_token", Some("<mask>")),
            ],
            prepare: prepare_mbart50,
            build: mbart50,
            finish: finish_mbart50,
        },
        "NllbTokenizer" => Recipe {
            defaults: ROBERTA_TOKENS,
            prepare: prepare_nllb,
            build: nllb,
            finish: finish_nllb,
        },
        "SeamlessM4TTokenizer" => Recipe {
            defaults: &ROBERTA_TOKENS[..6],
            prepare: super::as_given,
            build: seamless,
            finish: |backend, settings| {
                let language = language(backend, settings, "src_lang", "eng")?;
                let eos = eos(backend)?;
                frame(backend, &[language], &[eos], PairTemplate::Joined(0))
            },
        },
        _ => return None,
    })
}

fn eos(backend: &Backend) -> Result<u32> {
    backend.known_id(&backend.required("eos_token")?)
}

/// The id of the token of the language that a setting names.
fn language(backend: &Backend, settings: &Settings, name: &str, default: &str) -> Result<u32> {
    let language = text(settings, name)?.unwrap_or_else(|| default.to_owned());
    // Only SeamlessM4T writes language codes between underscores.
    let language = match default {
        "eng" if !language.contains("__") => format!("__{language}__"),
        _ => language,
    };
    backend.known_id(&language)
}

/// Adds the tokens of `languages` to the tokens that the folder names, before them if `first`.
fn with_languages(settings: &mut Settings, languages: &[&str], first: bool) -> Result<()> {
    settings.list("additional_special_tokens")?;
    let given = match settings.remove("additional_special_tokens") {
        Some(Value::Array(tokens)) => tokens,
        _ => Vec::new(),
    };
    let codes = languages.iter().map(|code| Value::from(*code));
    let tokens: Vec<Value> = if first {
        let others = given
            .into_iter()
            .filter(|token| token.as_str().is_none_or(|content| !languages.contains(&content)));
        codes.chain(others).collect()
    } else {
        given.into_iter().chain(codes).collect()
    };
    settings.set("additional_special_tokens", Value::Array(tokens));
    Ok(())
}

fn prepare_mbart(settings: &mut Settings) -> Result<()> {
    unigram::mask_strips_left(settings)?;
    with_languages(settings, MBART, true)
}

fn mbart(_: &Settings, vocabulary: &Vocabulary<'_>) -> Result<Value> {
    let words = spaced_words("always");
    let model = unigram::model(vocabulary, 3)?;
    Ok(tokenizer(Value::Null, words, metaspace("always", true), model))
}

fn prepare_mbart50(settings: &mut Settings) -> Result<()> {
    unigram::mask_strips_left(settings)?;
    with_languages(settings, MBART50, false)
}

fn mbart50(settings: &Settings, vocabulary: &Vocabulary<'_>) -> Result<Value> {
    let pieces = vocabulary.pieces()?;
    let has_languages = pieces.iter().any(|(piece, _)| MBART50.contains(&piece.as_str()));
    let pieces = if has_languages {
        pieces
    } else {
        let mut all = Vec::with_capacity(pieces.len() + MBART50.len());
        for name in ["cls_token", "pad_token", "eos_token", "unk_token"] {
            all.push((settings.content(name)?, 0.0));
        }
        all.extend(pieces.into_iter().skip(3));
        all.extend(MBART50.iter().map(|code| ((*code).to_owned(), 0.0)));
        all.push((settings.content("mask_token")?, 0.0));
        all
    };
    let blanks = replace(&regex(" {2,}"), " ");
    let steps: Vec<Value> = vocabulary.charsmap().into_iter().chain([blanks]).collect();
    let model = json!({"type": "Unigram", "unk_id": 3, "byte_fallback": false, "vocab": pieces});
    let meta = || metaspace("always", true);
    Ok(tokenizer(sequence(&steps), meta(), meta(), model))
}

fn finish_mbart50(backend: &mut Backend, settings: &Settings) -> Result<()> {
    if text(settings, "src_lang")?.is_some_and(|code| !MBART50.contains(&code.as_str())) {
        return Err(settings.malformed("src_lang", "must be a language of the class"));
    }
    let language = language(backend, settings, "src_lang", "en_XX")?;
    let eos = eos(backend)?;
    frame(backend, &[language], &[eos], PairTemplate::Joined(0))
}

fn prepare_nllb(settings: &mut Settings) -> Result<()> {
    let additional = settings.remove("additional_special_tokens").filter(|it| !it.is_null());
    if settings.get("extra_special_tokens").is_none() {
        let codes = || NLLB.iter().map(|code| Value::from(*code)).collect();
        settings.set("extra_special_tokens", additional.unwrap_or_else(codes));
    }
    as_added(settings, "mask_token", |token| {
        token.lstrip = true;
        token.normalized = Some(true);
        token.special = true;
    })
}

fn nllb(settings: &Settings, vocabulary: &Vocabulary<'_>) -> Result<Value> {
    let normalizer = vocabulary
        .charsmap()
        .map_or(Value::Null, |charsmap| sequence(&[charsmap, replace(&regex(" {2,}"), " ")]));
    let meta = || metaspace("always", true);
    Ok(tokenizer(normalizer, meta(), meta(), bpe::without_bytes(settings, vocabulary)?))
}

fn finish_nllb(backend: &mut Backend, settings: &Settings) -> Result<()> {
    let language = language(backend, settings, "src_lang", "eng_Latn")?;
    let eos = eos(backend)?;
    if settings.flag("legacy_behaviour", false)? {
        frame(backend, &[], &[eos, language], PairTemplate::Joined(0))
    } else {
        frame(backend, &[language], &[eos], PairTemplate::Joined(0))
    }
}

fn seamless(settings: &Settings, vocabulary: &Vocabulary<'_>) -> Result<Value> {
    let normalizer = sequence(&[
        replace(&regex(r"[\n\r\t]"), " "),
        json!({"type": "NFKC"}),
        json!({"type": "Strip", "strip_left": false, "strip_right": true}),
        replace(&regex(" +▁"), "▁"),
        replace(&regex("^▁+$"), ""),
        replace(&regex(" {2,}"), "▁"),
    ]);
    let meta = || metaspace("first", true);
    Ok(tokenizer(normalizer, meta(), meta(), bpe::without_bytes(settings, vocabulary)?))
}
