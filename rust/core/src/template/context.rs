//! [`TemplateContext`]: what a chat template is compiled with.

use chrono::NaiveDateTime;
use fastpack_template::json::Map;

/// What a template is compiled with.
#[derive(Clone, Debug)]
pub struct TemplateContext {
    /// `bos_token` and its like, as [`fastpack_tokenize::Pretrained::special_tokens`] has them.
    pub special_tokens: Vec<(String, String)>,
    /// Contents of the special added tokens, longest first: what can end a turn.
    pub turn_ends: Vec<String>,
    /// What `strftime_now` sees.
    pub now: NaiveDateTime,
    /// Keyword arguments given for the whole run; a record's own win over them.
    pub kwargs: Map,
}
