//! [`of_calls`]: the settings that decide the result of calling the tokenizer object: padding, truncation and names of inputs.

use serde_json::{Map, Value, json};

/// The settings that decide the result of calling the tokenizer object, besides the ids.
const OF_CALLS: [&str; 4] =
    ["model_input_names", "model_max_length", "padding_side", "truncation_side"];

/// The class and its settings of `OF_CALLS`.
pub(super) fn of_calls(class: &str, config: &Map<String, Value>) -> Value {
    let mut call = json!({"class": class});
    for name in OF_CALLS {
        // `max_len` is the older name of the limit.
        let older = (name == "model_max_length").then(|| config.get("max_len")).flatten();
        call[name] = config.get(name).or(older).cloned().unwrap_or_default();
    }
    call
}

/// Takes the sides of padding and truncation from `tokenizer.json` where the configuration leaves them open.
pub(super) fn take_sides(call: &mut Value, tokenizer: &Value) {
    for (name, part) in [("padding_side", "padding"), ("truncation_side", "truncation")] {
        if call[name].is_null()
            && let Some(direction) = tokenizer[part]["direction"].as_str()
        {
            call[name] = direction.to_lowercase().into();
        }
    }
}
