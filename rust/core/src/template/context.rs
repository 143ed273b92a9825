//! [`TemplateContext`]: the special tokens, the time and the keyword arguments of a chat template.

use chrono::NaiveDateTime;
use fastpack_template::json::Map;
use fastpack_tokenize::Pretrained;

use super::trained::rule::encoder_pool::SharedTokens;

/// The special tokens, the time and the keyword arguments of a chat template.
#[derive(Clone, Debug)]
pub struct TemplateContext {
    /// Names and contents of the special tokens, such as `bos_token`, from
    /// [`fastpack_tokenize::Pretrained::special_tokens`].
    pub special_tokens: Vec<(String, String)>,
    /// Contents of the special added tokens, longest first. Any of them can end a turn.
    pub special_contents: Vec<String>,
    /// Contents of the tokens at which generation stops by the folder's generation config; empty if it does not say.
    pub stops: Vec<String>,
    /// The tokens of texts, if the tokenizer is known.
    pub tokens: Option<SharedTokens>,
    /// The time that `strftime_now` formats: `Options::now` in `config/mod.rs`, and in a resumed folder that of its first run.
    pub now: NaiveDateTime,
    /// Keyword arguments of the whole run. A record's own take precedence.
    pub kwargs: Map,
}

impl TemplateContext {
    /// The context of the templates of a model folder.
    pub fn of(pretrained: &Pretrained, now: NaiveDateTime, kwargs: Map) -> Self {
        Self {
            special_tokens: pretrained.special_tokens.clone(),
            special_contents: pretrained.tokenizer.special_tokens().to_vec(),
            stops: pretrained.stop_tokens.clone(),
            tokens: Some(SharedTokens::of(&pretrained.tokenizer)),
            now,
            kwargs,
        }
    }

    /// The content of a named special token.
    pub(super) fn special_token(&self, name: &str) -> Option<String> {
        let mut tokens = self.special_tokens.iter();
        tokens.find(|(known, _)| known == name).map(|(_, content)| content.clone())
    }
}
