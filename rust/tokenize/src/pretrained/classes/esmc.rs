//! ESM C, which reads proteins letter by letter and has a vocabulary of its own.

use serde_json::{Map, Value, json};

use super::{Recipe, tokenizer};
use crate::error::Result;
use crate::loading::load::malformed;
use crate::pretrained::backend::{Backend, PairTemplate, TemplatePiece};
use crate::pretrained::settings::Settings;
use crate::pretrained::vocabulary::Vocabulary;

/// The tokens of the class, in the order of their ids.
const VOCABULARY: [&str; 33] = [
    "<cls>", "<pad>", "<eos>", "<unk>", "L", "A", "G", "V", "S", "E", "R", "T", "I", "D", "P", "K",
    "Q", "N", "F", "Y", "M", "H", "W", "C", "X", "B", "U", "Z", "O", ".", "-", "|", "<mask>",
];

pub(super) fn recipe(class: &str) -> Option<Recipe> {
    (class == "EsmcTokenizer").then_some(Recipe {
        defaults: &[
            ("unk_token", Some("<unk>")),
            ("bos_token", None),
            ("cls_token", Some("<cls>")),
            ("pad_token", Some("<pad>")),
            ("mask_token", Some("<mask>")),
            ("eos_token", Some("<eos>")),
        ],
        prepare,
        build,
        finish,
    })
}

#[expect(clippy::unnecessary_wraps, reason = "other classes can fail here")]
fn prepare(settings: &mut Settings) -> Result<()> {
    if settings.get("bos_token").is_none() {
        let cls = settings.get("cls_token").cloned().unwrap_or_default();
        settings.set("bos_token", cls);
    }
    settings.set("chain_break_token", "|".into());
    Ok(())
}

fn build(settings: &Settings, _: &Vocabulary<'_>) -> Result<Value> {
    let vocab: Map<String, Value> =
        (0_usize..).zip(VOCABULARY).map(|(id, token)| (token.to_owned(), id.into())).collect();
    let unk = settings.content("unk_token")?;
    let model = json!({"type": "BPE", "unk_token": unk, "vocab": vocab, "merges": []});
    Ok(tokenizer(Value::Null, Value::Null, Value::Null, model))
}

fn finish(backend: &mut Backend, _: &Settings) -> Result<()> {
    let token = |name: &str| -> Result<(String, u32)> {
        let content = backend.required(name)?;
        let id = (0..).zip(VOCABULARY).find(|(_, token)| *token == content).map(|(id, _)| id);
        let id = id.ok_or_else(|| {
            malformed(name, format!("`{content}` is not in the vocabulary of the class"))
        })?;
        Ok((content, id))
    };
    let (cls, eos) = (token("cls_token")?, token("eos_token")?);
    let pieces = [
        TemplatePiece::Token(&cls.0, cls.1),
        TemplatePiece::Text,
        TemplatePiece::Token(&eos.0, eos.1),
    ];
    backend.set_pieces(&pieces, PairTemplate::Bare)
}
