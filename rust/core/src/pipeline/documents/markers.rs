//! Warnings about texts of a chat template that look like special tokens, and that the tokenizer has no token for.

use fastpack_tokenize::{Encoding, SpecialTokens, Tokenizer};

use crate::template::ChatTemplate;

/// Markers that are named, of more.
const MOST_NAMED: usize = 8;

/// Tokens of a marker that are named, of more.
const MOST_TOKENS: usize = 16;

/// A warning for each marker of the template that is several tokens.
///
/// A model that was not trained with such a marker knows it as little as a tokenizer that has no token for it.
pub(in crate::pipeline) fn cut_markers(
    template: &ChatTemplate,
    tokenizer: &Tokenizer,
) -> Vec<String> {
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
