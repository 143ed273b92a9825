//! Reads vocabulary and merges from list files, as the Hugging Face crate does.

use serde_json::{Value, json};

use super::converted::ConvertedTokenizer;
use crate::error::Result;
use crate::pretrained::classes::tokenizer;
use crate::pretrained::model_folder::ModelFolder;

/// The files of classes with a byte-pair encoding model.
const PAIRS: [&str; 2] = ["vocab.json", "merges.txt"];

/// The file of classes with a `WordPiece` model.
const WORDS: &str = "vocab.txt";

/// The lists of a folder as a `tokenizer.json` with only a vocabulary; `None` if the class does not read lists, or
/// if they are missing.
pub(super) fn read(folder: &ModelFolder<'_>, class: &str) -> Result<Option<ConvertedTokenizer>> {
    let model = match class {
        "BertTokenizer" | "DistilBertTokenizer" => words(folder)?,
        "CLIPTokenizer" | "CodeGenTokenizer" | "CohereTokenizer" | "GPT2Tokenizer"
        | "GPTNeoXTokenizer" | "Qwen2Tokenizer" | "RobertaTokenizer" => pairs(folder)?,
        _ => None,
    };
    let vocabulary = |model| tokenizer(Value::Null, Value::Null, Value::Null, model);
    Ok(model.map(|model| ConvertedTokenizer::new(vocabulary(model))))
}

fn pairs(folder: &ModelFolder<'_>) -> Result<Option<Value>> {
    let [vocab, merges] = PAIRS;
    let (Some(tokens), Some(text)) = (folder.object(vocab)?, folder.text(merges)?) else {
        return Ok(None);
    };
    let mut listed = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("#version") {
            continue;
        }
        let Some((left, right)) = line.split_once(' ').filter(|(_, right)| !right.contains(' '))
        else {
            let reason =
                format!("line {}: must be two tokens with a space between them", index + 1);
            return Err(folder.malformed(merges, reason));
        };
        listed.push(json!([left, right]));
    }
    Ok(Some(json!({"type": "BPE", "vocab": tokens, "merges": listed})))
}

fn words(folder: &ModelFolder<'_>) -> Result<Option<Value>> {
    let Some(text) = folder.text(WORDS)? else { return Ok(None) };
    let mut vocab = serde_json::Map::new();
    for (id, line) in text.lines().enumerate() {
        vocab.insert(line.trim_end().to_owned(), id.into());
    }
    Ok(Some(json!({"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100, "vocab": vocab})))
}
