//! Classes for generation and summaries.

use serde_json::{Value, json};

use super::unigram::{self, sequence};
use super::{
    Recipe, as_added, bpe, frame, frame_as_bert, metaspace, regex, replace, text, tokenizer,
};
use crate::error::Result;
use crate::pretrained::backend::{Backend, PairTemplate, TemplatePiece};
use crate::pretrained::settings::Settings;
use crate::pretrained::vocabulary::Vocabulary;

pub(super) fn recipe(class: &str) -> Option<Recipe> {
    Some(match class {
        "BigBirdTokenizer" => Recipe {
            defaults: &[
                ("bos_token", Some("<s>")),
                ("eos_token", Some("</s>")),
                ("unk_token", Some("<unk>")),
                ("pad_token", Some("<pad>")),
                ("mask_token", Some("[MASK]")),
                ("cls_token", Some("[CLS]")),
                ("sep_token", Some("[SEP]")),
            ],
            prepare: prepare_big_bird,
            build: big_bird,
            finish: frame_as_bert,
        },
        "PegasusTokenizer" => Recipe {
            defaults: &[
                ("pad_token", Some("<pad>")),
                ("eos_token", Some("</s>")),
                ("unk_token", Some("<unk>")),
                ("mask_token", Some("<mask_2>")),
            ],
            prepare: prepare_pegasus,
            build: pegasus,
            finish: |backend, _| {
                let eos = backend.known_id(&backend.required("eos_token")?)?;
                frame(backend, &[], &[eos], PairTemplate::Joined(0))
            },
        },
        "ReformerTokenizer" => Recipe {
            defaults: &[("eos_token", Some("</s>")), ("unk_token", Some("<unk>"))],
            prepare: super::as_given,
            build: reformer,
            finish: |backend, _| backend.add_specials_again(),
        },
        "XGLMTokenizer" => Recipe {
            defaults: &[
                ("bos_token", Some("<s>")),
                ("eos_token", Some("</s>")),
                ("sep_token", Some("</s>")),
                ("cls_token", Some("<s>")),
                ("unk_token", Some("<unk>")),
                ("pad_token", Some("<pad>")),
            ],
            prepare: prepare_xglm,
            build: xglm,
            finish: finish_xglm,
        },
        _ => return None,
    })
}

fn prepare_big_bird(settings: &mut Settings) -> Result<()> {
    for name in
        ["bos_token", "eos_token", "unk_token", "pad_token", "cls_token", "sep_token", "mask_token"]
    {
        as_added(settings, name, |token| token.lstrip = name == "mask_token")?;
    }
    Ok(())
}

fn big_bird(settings: &Settings, vocabulary: &Vocabulary<'_>) -> Result<Value> {
    let scheme = unigram::scheme(settings)?;
    let unk = settings.content("unk_token")?;
    let unk_id =
        unigram::position(vocabulary, |piece, score| piece == unk && score == 0.0)?.unwrap_or(100);
    let normalizer = sequence(&[
        json!({"type": "Strip", "strip_left": false, "strip_right": false}),
        replace(&regex(" {2,}"), "▁"),
    ]);
    let model = unigram::model(vocabulary, unk_id)?;
    Ok(tokenizer(normalizer, metaspace(scheme, true), metaspace(scheme, true), model))
}

fn prepare_pegasus(settings: &mut Settings) -> Result<()> {
    let sentence = if settings.contains("mask_token_sent") {
        text(settings, "mask_token_sent")?
    } else {
        Some("<mask_1>".to_owned())
    };
    let offset = match settings.get("offset") {
        None => 103,
        Some(offset) => {
            offset.as_u64().ok_or_else(|| settings.malformed("offset", "must be a count"))?
        }
    };
    let given = settings.list("additional_special_tokens")?;
    let has = given.is_some_and(|given| {
        given.iter().any(|token| Some(token.content()) == sentence.as_deref())
    });
    let first = sentence.filter(|_| !has).map(Value::from);
    let others = (2..offset).map(|number| Value::from(format!("<unk_{number}>")));
    let tokens = first.into_iter().chain(others).collect();
    settings.set("additional_special_tokens", Value::Array(tokens));
    Ok(())
}

fn pegasus(settings: &Settings, vocabulary: &Vocabulary<'_>) -> Result<Value> {
    let unk = settings.content("unk_token")?;
    // The class looks only after the first piece.
    let mut number = 0;
    let unk_id = unigram::position(vocabulary, |piece, score| {
        number += 1;
        number > 1 && piece == unk && score == 0.0
    })?;
    let unk_id = unk_id.ok_or_else(|| {
        crate::loading::load::malformed(
            "model.vocab",
            format!("lacks `{unk}` with the score 0 behind its first piece, which the class needs"),
        )
    })?;
    let blanks = replace(&regex(" {2,}"), " ");
    let first = vocabulary.charsmap().unwrap_or_else(|| replace(&regex(r"\n"), " "));
    let meta = || metaspace("always", true);
    let model = unigram::model(vocabulary, unk_id)?;
    Ok(tokenizer(sequence(&[first, blanks]), meta(), meta(), model))
}

fn reformer(settings: &Settings, vocabulary: &Vocabulary<'_>) -> Result<Value> {
    let normalizer = vocabulary
        .charsmap()
        .map_or(Value::Null, |charsmap| sequence(&[charsmap, replace(&regex(" {2,}"), " ")]));
    let meta = || metaspace("always", true);
    Ok(tokenizer(normalizer, meta(), meta(), bpe::without_bytes(settings, vocabulary)?))
}

fn prepare_xglm(settings: &mut Settings) -> Result<()> {
    settings.list("additional_special_tokens")?;
    let mut tokens = match settings.remove("additional_special_tokens") {
        Some(Value::Array(tokens)) => tokens,
        _ => Vec::new(),
    };
    for number in 0..7 {
        let word = Value::from(format!("<madeupword{number}>"));
        if !tokens.contains(&word) {
            tokens.push(word);
        }
    }
    settings.set("additional_special_tokens", Value::Array(tokens));
    Ok(())
}

fn xglm(settings: &Settings, vocabulary: &Vocabulary<'_>) -> Result<Value> {
    let scheme = unigram::scheme(settings)?;
    let blanks = replace(&regex(" {2,}"), " ");
    let steps: Vec<Value> = vocabulary.charsmap().into_iter().chain([blanks]).collect();
    let model = unigram::model(vocabulary, 3)?;
    Ok(tokenizer(sequence(&steps), metaspace(scheme, true), metaspace(scheme, true), model))
}

fn finish_xglm(backend: &mut Backend, _: &Settings) -> Result<()> {
    let eos = backend.known_id(&backend.required("eos_token")?)?;
    backend.known_id(&backend.required("bos_token")?)?;
    let name = backend.required("eos_token")?;
    let token = (TemplatePiece::Token(&name, eos), 0);
    let (first, second) = ((TemplatePiece::Text, 0), (TemplatePiece::Second, 0));
    backend.set_parts(&[token, first], &[token, first, token, token, second])
}
