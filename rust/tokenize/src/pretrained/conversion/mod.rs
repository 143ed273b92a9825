//! Folders without a `tokenizer.json`: reads another file as one, as transformers converts it.
//!
//! ```text
//! tekken.json, tiktoken.model ──────────────► ranks ──────────┐
//! tokenizer.model, spiece.model, … ─► protobuf, sentence_piece ├─► a `tokenizer.json`, and changed settings
//! vocab.json and merges.txt, vocab.txt ─────► lists ──────────┘
//! ```

mod converted;
mod lists;
mod protobuf;
mod ranks;
mod sentence_piece;
mod vocabulary_file;

use super::model_folder::ModelFolder;
use super::settings::Settings;
use crate::error::Result;
pub(super) use converted::ConvertedTokenizer;
use converted::TEKKEN;
use sentence_piece::SentencePieceModel;
use vocabulary_file::{TIKTOKEN, shared_file};

/// Reads the file that a folder without a `tokenizer.json` has instead; `None` if the class reads none that is
/// here.
pub(super) fn read(
    folder: &ModelFolder<'_>,
    class: &str,
    settings: &Settings,
) -> Result<Option<ConvertedTokenizer>> {
    let Some(name) = shared_file(folder)?.or_else(|| sentence_piece::usual_file(class)) else {
        return lists::read(folder, class);
    };
    let Some(bytes) = folder.bytes(name)? else { return Ok(None) };
    if name == TEKKEN {
        return ranks::tekken(folder, class, &bytes).map(Some);
    }
    if name != TIKTOKEN
        && let Some(model) = SentencePieceModel::read(&bytes)
    {
        return model.convert(folder, name, class, settings).map(Some);
    }
    ranks::tiktoken(folder, name, class, &bytes, settings).map(Some)
}
