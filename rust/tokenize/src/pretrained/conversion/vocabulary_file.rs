//! [`shared_file`]: chooses the vocabulary file of a folder without a `tokenizer.json`, and refuses two.

use super::converted::TEKKEN;
use crate::error::Result;
use crate::loading::load;
use crate::pretrained::model_folder::ModelFolder;

pub(super) const TIKTOKEN: &str = "tiktoken.model";
const PIECES: &str = "tokenizer.model";

/// The file that transformers reads for every class, if the folder has one.
pub(super) fn shared_file(folder: &ModelFolder<'_>) -> Result<Option<&'static str>> {
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
