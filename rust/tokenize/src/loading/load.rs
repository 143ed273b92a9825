//! Parses and checks a `tokenizer.json`, so that the engine can rely on every field.
//!
//! The Hugging Face crate slices, indexes and unwraps while it builds a model. So an invalid file can make it
//! panic, or fail without naming the field. Each such field is checked here first, and the error names the
//! invalid one.

use std::collections::HashMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};

/// The name of the file in errors.
pub(crate) const FILE: &str = "tokenizer.json";

/// The largest id: ids are stored as signed 32-bit integers.
const LARGEST_ID: u64 = i32::MAX as u64;

/// An error about one field of `tokenizer.json`.
pub(crate) fn malformed(field: &str, reason: impl std::fmt::Display) -> Error {
    Error::Malformed { file: FILE.to_owned(), reason: format!("`{field}`: {reason}") }
}

/// Parses `tokenizer.json` without checking its fields.
pub(crate) fn parse(json: &str) -> Result<Value> {
    serde_json::from_str(json)
        .map_err(|error| Error::Malformed { file: FILE.to_owned(), reason: error.to_string() })
}

/// Parses a `tokenizer.json` without its merges, which are most of it; `None` if its model is not BPE.
pub(crate) fn parse_without_merges(json: &str) -> Option<Value> {
    let parts: HashMap<String, &RawValue> = serde_json::from_str(json).ok()?;
    let model: HashMap<String, &RawValue> = serde_json::from_str(parts.get("model")?.get()).ok()?;
    if model.get("type")?.get() != "\"BPE\"" {
        return None;
    }
    let value = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).ok();
    let mut file = Map::new();
    for (name, raw) in parts.into_iter().filter(|(name, _)| name != "model") {
        file.insert(name, value(raw)?);
    }
    let mut rest = Map::new();
    for (name, raw) in model {
        let part = if name == "merges" { json!([]) } else { value(raw)? };
        rest.insert(name, part);
    }
    file.insert("model".to_owned(), Value::Object(rest));
    Some(Value::Object(file))
}

/// Checks a parsed `tokenizer.json`, and drops `truncation` and `padding`.
pub(crate) fn check(value: &mut Value) -> Result<()> {
    let Value::Object(file) = value else {
        return Err(Error::Malformed {
            file: FILE.to_owned(),
            reason: "must be a JSON object".to_owned(),
        });
    };
    for ignored in ["truncation", "padding"] {
        file.insert(ignored.to_owned(), Value::Null);
    }
    match file.get_mut("model") {
        Some(Value::Object(model)) => {
            name_type(model);
            check_model(model)?;
        }
        Some(_) => return Err(malformed("model", "must be an object")),
        None => return Err(malformed("model", "is missing")),
    }
    if let Some(tokens) = file.get("added_tokens") {
        check_added_tokens(tokens)?;
    }
    if let Some(processor) = file.get("post_processor") {
        check_template(processor)?;
    }
    check_lengths(file)
}

/// Writes the type into a model that has none, as in older files: the engine takes the first type, in this
/// order, whose fields are all there.
fn name_type(model: &mut Map<String, Value>) {
    let has = |names: &[&str]| names.iter().all(|name| model.contains_key(*name));
    let kind = match model.get("vocab") {
        _ if model.contains_key("type") => return,
        Some(Value::Array(_)) => "Unigram",
        _ if has(&["merges"]) => "BPE",
        _ if has(&["unk_token", "continuing_subword_prefix", "max_input_chars_per_word"]) => {
            "WordPiece"
        }
        _ if has(&["unk_token"]) => "WordLevel",
        _ => return,
    };
    model.insert("type".to_owned(), kind.into());
}

fn check_model(model: &Map<String, Value>) -> Result<()> {
    if let Some(dropout) = model.get("dropout").filter(|dropout| !dropout.is_null())
        && dropout.as_f64() != Some(0.0)
    {
        return Err(malformed(
            "model.dropout",
            format!(
                "merges are dropped at random ({dropout}), so a text has no fixed ids; set it to null"
            ),
        ));
    }
    match model.get("vocab") {
        Some(Value::Object(vocab)) => {
            if vocab.is_empty() {
                return Err(malformed("model.vocab", "has no tokens"));
            }
            for (token, id) in vocab {
                if id.as_u64().is_none_or(|id| id > LARGEST_ID) {
                    return Err(malformed(
                        "model.vocab",
                        format!(
                            "`{token}` has the id {id}, which is not an integer from 0 to {LARGEST_ID}"
                        ),
                    ));
                }
            }
            if let Some(merges) = model.get("merges") {
                check_merges(merges, vocab, prefix_of(model)?)?;
            }
        }
        Some(Value::Array(pieces)) => check_pieces(pieces, model.get("unk_id"))?,
        Some(_) => return Err(malformed("model.vocab", "must be an object or a list")),
        None => return Err(malformed("model.vocab", "is missing")),
    }
    Ok(())
}

fn prefix_of(model: &Map<String, Value>) -> Result<&str> {
    match model.get("continuing_subword_prefix") {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(prefix)) => Ok(prefix),
        Some(_) => Err(malformed("model.continuing_subword_prefix", "must be a string or null")),
    }
}

fn check_merges(merges: &Value, vocab: &Map<String, Value>, prefix: &str) -> Result<()> {
    let Value::Array(merges) = merges else {
        return Err(malformed("model.merges", "must be a list"));
    };
    let mut joined = String::new();
    for (index, merge) in merges.iter().enumerate() {
        let field = || format!("model.merges[{index}]");
        let (left, right) = merge_pair(merge)
            .ok_or_else(|| malformed(&field(), format!("must be two tokens, and is {merge}")))?;
        joined.clear();
        joined.push_str(left);
        joined.push_str(right.get(prefix.len()..).ok_or_else(|| {
            malformed(
                &field(),
                format!("`{right}` is shorter than `continuing_subword_prefix` (`{prefix}`)"),
            )
        })?);
        for token in [left, right, joined.as_str()] {
            if !vocab.contains_key(token) {
                return Err(malformed(&field(), format!("`{token}` is not in `model.vocab`")));
            }
        }
    }
    Ok(())
}

/// The two sides of a merge, written `["a", "b"]` or `"a b"`.
pub(crate) fn merge_pair(merge: &Value) -> Option<(&str, &str)> {
    match merge {
        Value::String(text) => {
            let (left, right) = text.split_once(' ')?;
            (!right.contains(' ')).then_some((left, right))
        }
        Value::Array(sides) => match sides.as_slice() {
            [Value::String(left), Value::String(right)] => Some((left, right)),
            _ => None,
        },
        _ => None,
    }
}

fn check_pieces(pieces: &[Value], unk_id: Option<&Value>) -> Result<()> {
    if pieces.is_empty() {
        return Err(malformed("model.vocab", "has no tokens"));
    }
    for (index, piece) in pieces.iter().enumerate() {
        let sides = piece.as_array().map_or(&[][..], Vec::as_slice);
        let [Value::String(text), Value::Number(score)] = sides else {
            return Err(malformed(
                &format!("model.vocab[{index}]"),
                "must be a piece and its score",
            ));
        };
        if text.is_empty() {
            return Err(malformed(&format!("model.vocab[{index}]"), "the piece is empty"));
        }
        if score.as_f64().is_none_or(|score| !score.is_finite()) {
            return Err(malformed(&format!("model.vocab[{index}]"), "the score is not finite"));
        }
    }
    match unk_id {
        None | Some(Value::Null) => Ok(()),
        Some(id)
            if id
                .as_u64()
                .and_then(|id| usize::try_from(id).ok())
                .is_some_and(|id| id < pieces.len()) =>
        {
            Ok(())
        }
        Some(id) => {
            Err(malformed("model.unk_id", format!("{id} is not an index into `model.vocab`")))
        }
    }
}

fn check_added_tokens(tokens: &Value) -> Result<()> {
    let Value::Array(tokens) = tokens else {
        return Err(malformed("added_tokens", "must be a list"));
    };
    let mut seen = HashMap::new();
    for (index, token) in tokens.iter().enumerate() {
        let id =
            token.get("id").and_then(Value::as_u64).filter(|id| *id <= LARGEST_ID).ok_or_else(
                || {
                    malformed(
                        &format!("added_tokens[{index}].id"),
                        format!("must be an integer from 0 to {LARGEST_ID}"),
                    )
                },
            )?;
        let content = token
            .get("content")
            .and_then(Value::as_str)
            .filter(|content| !content.is_empty())
            .ok_or_else(|| {
                malformed(&format!("added_tokens[{index}].content"), "must be a string, not empty")
            })?;
        if let Some(other) = seen.insert(content, id).filter(|other| *other != id) {
            return Err(malformed(
                &format!("added_tokens[{index}].id"),
                format!("`{content}` has the id {id} here and {other} before"),
            ));
        }
    }
    Ok(())
}

/// Checks that every token that a template names comes with its ids.
fn check_template(processor: &Value) -> Result<()> {
    if let Some(steps) = processor.get("processors").and_then(Value::as_array) {
        return steps.iter().try_for_each(check_template);
    }
    let known = processor.get("special_tokens");
    for template in ["single", "pair"] {
        let pieces =
            processor.get(template).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for piece in pieces {
            let Some(name) = piece.get("SpecialToken").and_then(|token| token.get("id")) else {
                continue;
            };
            if name.as_str().is_none_or(|name| known.and_then(|known| known.get(name)).is_none()) {
                return Err(malformed(
                    &format!("post_processor.{template}"),
                    format!("{name} is not in `post_processor.special_tokens`"),
                ));
            }
        }
    }
    Ok(())
}

/// Checks that a `FixedLength` pre-tokenizer has a length of at least one.
fn check_lengths(file: &Map<String, Value>) -> Result<()> {
    fn walk(step: &Value) -> Result<()> {
        if let Some(steps) = step.get("pretokenizers").and_then(Value::as_array) {
            return steps.iter().try_for_each(walk);
        }
        let fixed = step.get("type").and_then(Value::as_str) == Some("FixedLength");
        if fixed && step.get("length").and_then(Value::as_u64).is_some_and(|length| length == 0) {
            return Err(malformed("pre_tokenizer.length", "must be at least 1"));
        }
        Ok(())
    }
    file.get("pre_tokenizer").map_or(Ok(()), walk)
}
