//! LUKE, whose texts name entities.

use serde_json::Value;

use super::{ROBERTA_TOKENS, Recipe, bpe, set_roberta, text};
use crate::error::Result;
use crate::pretrained::settings::Settings;
use crate::pretrained::token::{AddedToken, Token};

/// The tasks that the class knows.
const TASKS: [&str; 3] =
    ["entity_span_classification", "entity_classification", "entity_pair_classification"];

/// The tokens around an entity: the argument, an older name of it, and the default.
const ENTITIES: [[&str; 3]; 2] =
    [["entity_1_token", "entity_token_1", "<ent>"], ["entity_2_token", "entity_token_2", "<ent2>"]];

/// The tokens of the vocabulary of entities.
const NAMES: [(&str, &str); 4] = [
    ("entity_unk_token", "[UNK]"),
    ("entity_pad_token", "[PAD]"),
    ("entity_mask_token", "[MASK]"),
    ("entity_mask2_token", "[MASK2]"),
];

pub(super) fn recipe(class: &str) -> Option<Recipe> {
    (class == "LukeTokenizer").then_some(Recipe {
        defaults: ROBERTA_TOKENS,
        prepare,
        build: bpe::byte_level,
        finish: |backend, _| set_roberta(backend, ["cls_token", "sep_token"], true, true),
    })
}

fn prepare(settings: &mut Settings) -> Result<()> {
    if text(settings, "task")?.is_some_and(|task| !TASKS.contains(&task.as_str())) {
        return Err(settings.malformed("task", "must be a task of the class"));
    }
    let mut extra: Vec<Token> = Vec::new();
    for name in ["extra_special_tokens", "additional_special_tokens"] {
        extra.extend(settings.list(name)?.unwrap_or_default());
        settings.remove(name);
    }
    for [name, older, default] in ENTITIES {
        let given = settings.remove(older).or_else(|| settings.get(name).cloned());
        settings.set(name, given.unwrap_or_else(|| default.into()));
        let token = match settings.token(name)? {
            Some(Token::Text(content)) => Token::Added(AddedToken::new(&content)),
            Some(token) => token,
            None => return Err(settings.malformed(name, "must not be null")),
        };
        settings.set(name, token.content().into());
        if !extra.iter().any(|other| other.content() == token.content()) {
            extra.push(token);
        }
    }
    for (name, default) in NAMES {
        settings.set(name, default.into());
    }
    let extra = extra.iter().map(Token::to_value).collect();
    settings.set("extra_special_tokens", Value::Array(extra));
    Ok(())
}
