//! [`Count`]: a number of documents and of their tokens.

use serde::{Deserialize, Serialize};

/// A number of documents and of the tokens in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Documents.
    pub documents: u64,
    /// Tokens; a record that was never tokenized has none.
    pub tokens: u64,
}

impl Count {
    /// Adds one document of `tokens` tokens.
    pub fn add(&mut self, tokens: u64) {
        self.documents += 1;
        self.tokens += tokens;
    }

    /// Adds another count.
    pub fn merge(&mut self, other: Self) {
        self.documents += other.documents;
        self.tokens += other.tokens;
    }
}
