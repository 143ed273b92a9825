//! Warnings about markers in a chat template that look like special tokens, but are no tokens of the
//! tokenizer.

use fastpack_tokenize::{Encoding, SpecialTokens, Tokenizer};

use crate::template::ChatTemplate;

/// The most markers in a warning.
const MOST_NAMED: usize = 8;

/// The most tokens of a marker in a warning.
const MOST_TOKENS: usize = 16;

/// A warning for each marker of the template that becomes several tokens.
///
/// A model that was not trained with such a marker does not know it, and its tokenizer has no token for it.
pub(crate) fn cut_markers(template: &ChatTemplate, tokenizer: &Tokenizer) -> Vec<String> {
    let mut encoder = tokenizer.encoder();
    let mut encoding = Encoding::default();
    let mut warnings: Vec<String> = Vec::new();
    let mut more = 0;
    for marker in template.markers() {
        encoding.clear();
        let done = encoder.encode(&marker, &[], SpecialTokens::Omit, &mut encoding);
        let ids = &encoding.ids;
        if done.is_err() || ids.len() < 2 {
            continue;
        }
        if warnings.len() == MOST_NAMED {
            more += 1;
            continue;
        }
        let named = ids.iter().take(MOST_TOKENS).filter_map(|id| tokenizer.id_to_token(*id));
        let mut named: Vec<String> = named.map(|token| format!("`{token}`")).collect();
        named.extend((ids.len() > MOST_TOKENS).then(|| "…".to_owned()));
        warnings.push(format!(
            "the chat template writes `{marker}`, which is no token of this tokenizer but {}: {}",
            ids.len(),
            named.join(", ")
        ));
    }
    if more > 0 {
        warnings.push(format!(
            "the chat template writes {more} more such texts that are no tokens of this tokenizer"
        ));
    }
    warnings
}
