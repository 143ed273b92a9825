//! [`TemplateContext`]: the special tokens, the time and the keyword arguments of a chat template.

use chrono::NaiveDateTime;
use fastpack_template::json::Map;

/// The special tokens, the time and the keyword arguments of a chat template.
#[derive(Clone, Debug)]
pub struct TemplateContext {
    /// Names and contents of the special tokens, such as `bos_token`, from
    /// [`fastpack_tokenize::Pretrained::special_tokens`].
    pub special_tokens: Vec<(String, String)>,
    /// Contents of the special added tokens, longest first. Any of them can end a turn.
    pub turn_ends: Vec<String>,
    /// The time that `strftime_now` formats.
    pub now: NaiveDateTime,
    /// Keyword arguments of the whole run. A record's own take precedence.
    pub kwargs: Map,
}
