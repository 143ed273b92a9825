//! Tokens of the tokenizer that texts spell out: [`find_control_tokens`] finds them, [`special_in_text`] refuses them or encodes them as
//! other text, and [`markers_in_texts`] notes texts that are formatted or ended already.

pub(super) mod find_control_tokens;
pub(crate) mod markers_in_texts;
pub(crate) mod missing_markers;
pub(super) mod special_in_text;
