//! Describes the components of a tokenizer in words.

use serde_json::Value;
use tokenizers::ModelWrapper;

/// Bytes of the longest field that is shown: a character map has hundreds of thousands.
const LONGEST_SHOWN: usize = 400;

/// Each component of an engine: its name in `tokenizer.json`, and its type with its options.
pub(crate) fn describe(engine: &tokenizers::Tokenizer) -> Vec<(&'static str, String)> {
    let shown = |component: serde_json::Result<Value>| {
        component.map_or_else(|error| error.to_string(), |value| step(&value))
    };
    vec![
        ("normalizer", shown(serde_json::to_value(engine.get_normalizer()))),
        ("pre_tokenizer", shown(serde_json::to_value(engine.get_pre_tokenizer()))),
        ("model", model(engine.get_model())),
        ("post_processor", shown(serde_json::to_value(engine.get_post_processor()))),
        ("decoder", shown(serde_json::to_value(engine.get_decoder()))),
    ]
}

/// The type of a component with its options; for a sequence, its steps one after the other.
fn step(component: &Value) -> String {
    let Some(fields) = component.as_object() else { return "none".to_owned() };
    let steps = ["normalizers", "pretokenizers", "processors", "decoders"]
        .iter()
        .find_map(|name| fields.get(*name)?.as_array());
    if let Some(steps) = steps {
        return steps.iter().map(step).collect::<Vec<_>>().join(", ");
    }
    let mut options = Vec::new();
    for (name, value) in fields.iter().filter(|(name, _)| *name != "type") {
        let pattern = value.get("Regex").or_else(|| value.get("String"));
        match pattern.unwrap_or(value) {
            Value::Object(_) | Value::Array(_) => {}
            Value::String(text) if text.len() > LONGEST_SHOWN => {
                options.push(format!("{name}: {} bytes", text.len()));
            }
            Value::String(text) => options.push(format!("{name}: `{text}`")),
            other => options.push(format!("{name}: {other}")),
        }
    }
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or("of an unknown type");
    if options.is_empty() { kind.to_owned() } else { format!("{kind} ({})", options.join(", ")) }
}

fn model(model: &ModelWrapper) -> String {
    let text = |name: &str, value: &Option<String>| {
        value.as_ref().filter(|value| !value.is_empty()).map(|value| format!("{name}: `{value}`"))
    };
    let flag = |name: &str, is_set: bool| is_set.then(|| name.to_owned());
    let (kind, options) = match model {
        ModelWrapper::BPE(bpe) => (
            "BPE",
            vec![
                text("unk_token", &bpe.unk_token),
                text("continuing_subword_prefix", &bpe.continuing_subword_prefix),
                text("end_of_word_suffix", &bpe.end_of_word_suffix),
                flag("fuse_unk", bpe.fuse_unk),
                flag("byte_fallback", bpe.byte_fallback),
                flag("ignore_merges", bpe.ignore_merges),
            ],
        ),
        ModelWrapper::WordPiece(words) => (
            "WordPiece",
            vec![
                text("unk_token", &Some(words.unk_token.clone())),
                text("continuing_subword_prefix", &Some(words.continuing_subword_prefix.clone())),
            ],
        ),
        ModelWrapper::WordLevel(words) => {
            ("WordLevel", vec![text("unk_token", &Some(words.unk_token.clone()))])
        }
        ModelWrapper::Unigram(unigram) => {
            ("Unigram", vec![flag("byte_fallback", unigram.byte_fallback())])
        }
    };
    let options: Vec<String> = options.into_iter().flatten().collect();
    if options.is_empty() { kind.to_owned() } else { format!("{kind} ({})", options.join(", ")) }
}
