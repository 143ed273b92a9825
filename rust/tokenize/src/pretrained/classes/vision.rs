//! Classes for images and for document layout.

use serde_json::{Value, json};

use super::unigram::{self, prepare_t5, sequence, spaced_words};
use super::{
    ROBERTA_TOKENS, Recipe, as_added, as_given, bpe, frame, frame_in_cls_and_sep, literal,
    metaspace, nothing_more, regex, replace, set_roberta, tokenizer, wordpiece,
};
use crate::error::Result;
use crate::pretrained::backend::{Backend, PairTemplate, TemplatePiece};
use crate::pretrained::settings::Settings;
use crate::pretrained::vocabulary::Vocabulary;

pub(super) fn recipe(class: &str) -> Option<Recipe> {
    Some(match class {
        "LayoutLMv2Tokenizer" => wordpiece::recipe("BertTokenizer")?,
        "LayoutLMv3Tokenizer" => Recipe {
            defaults: ROBERTA_TOKENS,
            prepare: as_given,
            build: bpe::byte_level_spaced,
            finish: |backend, settings| {
                let spaced = settings.flag("add_prefix_space", true)?;
                set_roberta(backend, ["cls_token", "sep_token"], true, spaced)
            },
        },
        "LayoutXLMTokenizer" => Recipe {
            defaults: ROBERTA_TOKENS,
            prepare: unigram::mask_strips_left,
            build: layout_xlm,
            finish: |backend, _| frame_in_cls_and_sep(backend, PairTemplate::Doubled),
        },
        "MarkupLMTokenizer" => Recipe {
            defaults: ROBERTA_TOKENS,
            prepare: prepare_markup,
            build: bpe::byte_level,
            finish: |backend, _| frame_in_cls_and_sep(backend, PairTemplate::Followed(0)),
        },
        "UdopTokenizer" => Recipe {
            defaults: &[
                ("eos_token", Some("</s>")),
                ("sep_token", Some("</s>")),
                ("unk_token", Some("<unk>")),
                ("pad_token", Some("<pad>")),
            ],
            prepare: as_given,
            build: udop,
            finish: unigram::finish_t5,
        },
        "NougatTokenizer" => Recipe {
            defaults: &[
                ("unk_token", Some("<unk>")),
                ("bos_token", Some("<s>")),
                ("eos_token", Some("</s>")),
                ("pad_token", Some("<pad>")),
            ],
            prepare: as_given,
            build: nougat,
            finish: finish_nougat,
        },
        "Siglip2Tokenizer" => Recipe {
            defaults: &[
                ("unk_token", Some("<unk>")),
                ("bos_token", Some("<bos>")),
                ("eos_token", Some("<eos>")),
                ("pad_token", Some("<pad>")),
                ("mask_token", Some("<mask>")),
            ],
            prepare: as_given,
            build: siglip2,
            finish: nothing_more,
        },
        "Tipsv2Tokenizer" => Recipe {
            defaults: &[
                ("unk_token", Some("<unk>")),
                ("pad_token", Some("<pad>")),
                ("bos_token", None),
                ("eos_token", None),
            ],
            prepare: as_given,
            build: tips,
            finish: nothing_more,
        },
        "VideoPrismTokenizer" => Recipe {
            defaults: &[
                ("eos_token", Some("</s>")),
                ("unk_token", Some("<unk>")),
                ("pad_token", Some("<pad>")),
            ],
            prepare: prepare_t5,
            build: unigram::t5,
            finish: nothing_more,
        },
        _ => return None,
    })
}

fn layout_xlm(settings: &Settings, vocabulary: &Vocabulary<'_>) -> Result<Value> {
    let scheme = unigram::scheme(settings)?;
    let normalizer = sequence(&[
        json!({"type": "Strip", "strip_left": false, "strip_right": true}),
        replace(&regex(" {2,}"), "▁"),
    ]);
    let model = unigram::model(vocabulary, 3)?;
    Ok(tokenizer(normalizer, metaspace(scheme, true), metaspace(scheme, true), model))
}

fn prepare_markup(settings: &mut Settings) -> Result<()> {
    if !settings.contains("tags_dict") {
        return Err(settings.malformed("tags_dict", "is missing, which the class needs"));
    }
    for (name, _) in ROBERTA_TOKENS {
        as_added(settings, name, |token| token.lstrip = *name == "mask_token")?;
    }
    Ok(())
}

fn udop(settings: &Settings, vocabulary: &Vocabulary<'_>) -> Result<Value> {
    let unk = settings.content("unk_token")?;
    let unk_id = unigram::position(vocabulary, |piece, _| piece == unk)?.unwrap_or(2);
    let model = unigram::model(vocabulary, unk_id)?;
    Ok(tokenizer(Value::Null, spaced_words("always"), metaspace("always", true), model))
}

/// Builds Nougat's engine. The class writes its patterns as plain texts, so two of its splits hardly ever
/// cut.
#[expect(clippy::unnecessary_wraps, reason = "other classes can fail here")]
fn nougat(_: &Settings, vocabulary: &Vocabulary<'_>) -> Result<Value> {
    let split = |text: &str, behavior: &str| json!({"type": "Split", "pattern": literal(text), "behavior": behavior, "invert": false});
    let signs = r##"[\(\)\[\]\{\}]|([!\"#\$%\&'\*\+,\-\./:;<=>\?\\\^_`\|\~])\1*"##;
    let steps = json!({"type": "Sequence", "pretokenizers": [
        split("SPL1T-TH1S-Pl3A5E", "Removed"),
        {"type": "Digits", "individual_digits": true},
        split(signs, "Isolated"),
        split("\n", "Isolated"),
        bpe::bytes(false, true),
    ]});
    let model = bpe::plain_model(vocabulary);
    Ok(tokenizer(json!({"type": "NFKC"}), steps, bpe::byte_decoder(), model))
}

fn finish_nougat(backend: &mut Backend, settings: &Settings) -> Result<()> {
    let (bos, eos) = (settings.content("bos_token")?, settings.content("eos_token")?);
    let named = |name: &str| backend.known_id(&backend.required(name)?);
    named("pad_token")?;
    let (bos_id, eos_id) = (named("bos_token")?, named("eos_token")?);
    if bos == eos {
        return frame(backend, &[bos_id], &[eos_id], PairTemplate::Bare);
    }
    let pieces = [
        TemplatePiece::Token(&bos, bos_id),
        TemplatePiece::Text,
        TemplatePiece::Token(&eos, eos_id),
    ];
    backend.set_pieces(&pieces, PairTemplate::Bare)
}

fn siglip2(settings: &Settings, vocabulary: &Vocabulary<'_>) -> Result<Value> {
    let mut file = bpe::gemma(settings, vocabulary)?;
    file["normalizer"] = sequence(&[json!({"type": "Lowercase"}), file["normalizer"].take()]);
    Ok(file)
}

fn tips(settings: &Settings, vocabulary: &Vocabulary<'_>) -> Result<Value> {
    let lowercase = settings.flag("do_lower_case", true)?;
    let steps: Vec<Value> = lowercase
        .then(|| json!({"type": "Lowercase"}))
        .into_iter()
        .chain(vocabulary.charsmap())
        .collect();
    let model = bpe::model(vocabulary, json!({"fuse_unk": true, "byte_fallback": true}));
    let decoder = json!({"type": "Sequence", "decoders": [
        metaspace("always", true), {"type": "ByteFallback"}, {"type": "Fuse"}]});
    Ok(tokenizer(sequence(&steps), spaced_words("always"), decoder, model))
}
