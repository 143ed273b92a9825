//! The digest of a tokenizer: equal digests give equal ids.

use std::io::{self, BufWriter, Write};

use serde_json::{Value, json};

/// Changes when the way of hashing does, so that digests of different releases never meet by accident.
const DOMAIN: &str = "fastpack tokenizer 1";

/// Hashes the model as it was written and the other components as the engine holds them.
pub(crate) fn digest(model: &Value, engine: &tokenizers::Tokenizer) -> String {
    let components = json!({
        "domain": DOMAIN,
        "split_special_tokens": engine.get_encode_special_tokens(),
        "added_tokens": engine.get_added_vocabulary(),
        "normalizer": engine.get_normalizer(),
        "pre_tokenizer": engine.get_pre_tokenizer(),
        "post_processor": engine.get_post_processor(),
    });
    let mut writer = BufWriter::new(blake3::Hasher::new());
    write_sorted(&mut writer, &components).expect("a hasher takes every byte");
    write_sorted(&mut writer, model).expect("a hasher takes every byte");
    let hasher = writer.into_inner().expect("a hasher takes every byte");
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
