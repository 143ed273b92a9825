//! [`Overlong`]: the treatment of a document longer than a row.

use crate::config::option_words::option_words;

option_words! {
    /// The treatment of a document longer than a row.
    #[non_exhaustive]
    pub enum Overlong {
        /// It is dropped, and counted.
        Drop = "drop",
        /// A row's length of it is kept, and the rest is counted.
        Truncate = "truncate",
        /// A conversation is cut after the last turn of the assistant that a row holds, and the rest counted; anything else
        /// is dropped.
        Trim = "trim",
        /// It is cut into pieces that fill a row each, but for the last.
        Split = "split",
        /// The run fails, naming it.
        Error = "error",
    }
}

impl Overlong {
    /// The treatment if the options say nothing: a text is split, a conversation dropped.
    pub fn usual(is_text: bool) -> Self {
        if is_text { Self::Split } else { Self::Drop }
    }
}
