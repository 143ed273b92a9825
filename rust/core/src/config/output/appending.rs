//! [`Appending`]: the ways to append files to a finished folder.

use crate::config::option_words;

option_words! {
    /// The way to append files to a finished folder.
    pub enum Appending {
        /// All documents are packed again, the old ones by their kept tokens: the rows of one job over all files.
        Tokens = "append",
        /// The new documents are packed alone, and their rows follow the old ones.
        Rows = "append_rows",
    }
}
