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

use super::folder::Folder;
use super::settings::Settings;
use crate::error::Result;
use crate::loading::load;
pub(super) use converted::Converted;
use converted::TEKKEN;
use sentence_piece::Model;

const TIKTOKEN: &str = "tiktoken.model";
const PIECES: &str = "tokenizer.model";

/// Reads the file that a folder without a `tokenizer.json` has instead; `None` if the class reads none that is
/// here.
pub(super) fn read(
    folder: &Folder<'_>,
    class: &str,
    settings: &Settings,
) -> Result<Option<Converted>> {
    let Some(name) = shared_file(folder)?.or_else(|| sentence_piece::usual_file(class)) else {
        return lists::read(folder, class);
    };
    let Some(bytes) = folder.bytes(name)? else { return Ok(None) };
    if name == TEKKEN {
        return ranks::tekken(folder, class, &bytes).map(Some);
    }
    if name != TIKTOKEN
        && let Some(model) = Model::read(&bytes)
    {
        return model.convert(folder, name, class, settings).map(Some);
    }
    ranks::tiktoken(folder, name, class, &bytes, settings).map(Some)
}

/// The file that transformers reads for every class, if the folder has one.
fn shared_file(folder: &Folder<'_>) -> Result<Option<&'static str>> {
    let names = folder.names_in("", "")?;
    if names.iter().any(|name| name.contains(load::FILE)) {
        return Ok(None);
    }
    let mut found = [TEKKEN, PIECES, TIKTOKEN]
        .into_iter()
        .filter(|known| names.iter().any(|name| name.contains(known)));
    let first = found.next();
    if let Some((first, other)) = first.zip(found.next()) {
        let reason = format!(
            "is here beside `{other}`, and transformers reads whichever the system lists first; remove one of them"
        );
        return Err(folder.malformed(first, reason));
    }
    Ok(first)
}
