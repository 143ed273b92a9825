//! [`AddedToken`]: an added token as `tokenizer.json` writes it.

use serde::{Deserialize, Serialize};

/// The fields of an added token in `tokenizer.json`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "the file's own flags")]
pub(crate) struct AddedToken {
    pub(crate) id: u32,
    pub(crate) content: String,
    pub(crate) single_word: bool,
    pub(crate) lstrip: bool,
    pub(crate) rstrip: bool,
    pub(crate) normalized: bool,
    pub(crate) special: bool,
}
