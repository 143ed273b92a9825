//! [`ContainsAny`]: tells whether a text contains one of a set of texts.

use super::added_trie::{AddedTrie, AddedTrieBuilder};

/// Tells whether a text contains one of a set of texts.
pub(crate) struct ContainsAny(AddedTrie);

impl ContainsAny {
    /// A search for texts, none of which is empty.
    pub(crate) fn new<'a>(contents: impl IntoIterator<Item = &'a str>) -> Self {
        let mut trie = AddedTrieBuilder::default();
        for content in contents {
            trie.insert(content.as_bytes(), 0);
        }
        Self(trie.finish())
    }

    /// True if `text` contains one of the texts.
    pub(crate) fn is_in(&self, text: &str) -> bool {
        self.0.find(text.as_bytes(), 0).is_some()
    }
}
