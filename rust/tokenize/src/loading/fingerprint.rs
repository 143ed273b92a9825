//! The digest of a tokenizer: equal digests give equal ids.

use std::io::{self, BufWriter, Write};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A label that changes with the hashing scheme, so that digests of different schemes never collide.
const DOMAIN: &str = "fastpack tokenizer 1";

/// A label that separates the digests of files from the digests of engines.
const FILE_DOMAIN: &str = "fastpack tokenizer file 3";

/// The reason why writing to a hasher cannot fail.
const TAKES_ALL: &str = "a hasher takes every byte";

/// The parts of a `tokenizer.json`, besides the model, that decide the ids, as the file writes them.
#[derive(Deserialize)]
struct OutlineParts<'a> {
    #[serde(borrow)]
    added_tokens: &'a RawValue,
    #[serde(borrow)]
    normalizer: &'a RawValue,
    #[serde(borrow)]
    pre_tokenizer: &'a RawValue,
    #[serde(borrow)]
    post_processor: &'a RawValue,
}

/// Hashes the parts of a file that decide the ids, as the file writes them. `outline` replaces everything but
/// the tokens and merges.
///
/// The model is most of the file, and the last key as the Hugging Face crate writes it. So the text from the
/// model on is hashed as it is, without parsing it again. The few files that have other keys after the model
/// get a different digest from a file without them.
pub(crate) fn of_file(json: &str, outline: Option<&Value>) -> String {
    let (before, model) = json.split_at(model_of(json).unwrap_or(0));
    let before = format!("{before}null}}");
    let mut hasher = blake3::Hasher::new_derive_key(FILE_DOMAIN);
    let mut add = |part: &str| {
        hasher.update(&part.len().to_le_bytes());
        hasher.update(part.as_bytes());
    };
    add(model);
    if let Some(outline) = outline {
        write_sorted(&mut hasher, outline).expect(TAKES_ALL);
    } else if let Ok(parts) = serde_json::from_str::<OutlineParts<'_>>(&before) {
        let OutlineParts { added_tokens, normalizer, pre_tokenizer, post_processor } = parts;
        for part in [added_tokens, normalizer, pre_tokenizer, post_processor] {
            add(part.get());
        }
    } else {
        // Keys after the model and missing keys are not in `before`.
        add(&before);
    }
    hasher.finalize().to_hex().to_string()
}

/// The start of the value of the first top-level key `model`.
fn model_of(json: &str) -> Option<usize> {
    let bytes = json.as_bytes();
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            b'"' => {
                let begin = at;
                while *bytes.get(at)? != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                let behind = json.get(at + 1..)?.trim_ascii_start();
                at += 1;
                if depth == 1
                    && json.get(begin..at - 1) == Some("model")
                    && let Some(value) = behind.strip_prefix(':')
                {
                    return Some(json.len() - value.len());
                }
            }
            _ => {}
        }
    }
    None
}

/// Hashes the model as it was written, and the other components as the engine holds them.
pub(crate) fn of_engine(model: &Value, engine: &tokenizers::Tokenizer) -> String {
    let components = json!({
        "domain": DOMAIN,
        "split_special_tokens": engine.get_encode_special_tokens(),
        "added_tokens": engine.get_added_vocabulary(),
        "normalizer": engine.get_normalizer(),
        "pre_tokenizer": engine.get_pre_tokenizer(),
        "post_processor": engine.get_post_processor(),
    });
    let mut writer = BufWriter::new(blake3::Hasher::new());
    write_sorted(&mut writer, &components).expect(TAKES_ALL);
    write_sorted(&mut writer, model).expect(TAKES_ALL);
    let hasher = writer.into_inner().expect(TAKES_ALL);
    hasher.finalize().to_hex().to_string()
}

/// Writes a value with the keys of its objects sorted; they are unique, so the text is canonical.
fn write_sorted(out: &mut impl Write, value: &Value) -> io::Result<()> {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| key.as_str());
            out.write_all(b"{")?;
            for (key, value) in entries {
                serde_json::to_writer(&mut *out, key)?;
                out.write_all(b":")?;
                write_sorted(out, value)?;
                out.write_all(b",")?;
            }
            out.write_all(b"}")
        }
        Value::Array(values) => {
            out.write_all(b"[")?;
            for value in values {
                write_sorted(out, value)?;
                out.write_all(b",")?;
            }
            out.write_all(b"]")
        }
        scalar => Ok(serde_json::to_writer(out, scalar)?),
    }
}
