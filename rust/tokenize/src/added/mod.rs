//! Added tokens: contents that are cut out of a text before anything else happens to it.

mod trie;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::unicode;
use trie::{Builder, Trie};

/// An added token as `tokenizer.json` writes it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "the file's own flags")]
pub(crate) struct AddedToken {
    pub(crate) id: u32,
    pub(crate) content: String,
    pub(crate) single_word: bool,
    pub(crate) lstrip: bool,
    pub(crate) rstrip: bool,
    pub(crate) normalized: bool,
    pub(crate) special: bool,
}

/// Finds one phase's added tokens: those that match the raw text, or those that match the normalized one.
pub(crate) struct Matcher {
    trie: Trie,
    tokens: Vec<Rule>,
}

/// What a match of one token does.
#[derive(Clone, Copy)]
struct Rule {
    id: u32,
    single_word: bool,
    lstrip: bool,
    rstrip: bool,
}

/// An added token found in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Match {
    pub(crate) id: u32,
    /// What it covers, stripped whitespace included.
    pub(crate) range: Range<usize>,
}

impl Matcher {
    /// A matcher of tokens by what they match, or `None` if two of them match the same.
    pub(crate) fn new<'a>(
        tokens: impl IntoIterator<Item = (&'a str, &'a AddedToken)>,
    ) -> Option<Self> {
        let (mut trie, mut rules) = (Builder::default(), Vec::new());
        for (pattern, token) in tokens {
            let index = u32::try_from(rules.len()).ok()?;
            if !trie.insert(pattern.as_bytes(), index) {
                return None;
            }
            rules.push(Rule {
                id: token.id,
                single_word: token.single_word,
                lstrip: token.lstrip,
                rstrip: token.rstrip,
            });
        }
        Some(Self { trie: trie.finish(), tokens: rules })
    }

    /// Whether there is nothing to find.
    pub(crate) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// All matches in `text`: leftmost first, the longest at each place.
    ///
    /// The search goes on behind the content, not behind whitespace that was stripped.
    pub(crate) fn matches<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Match> + 'a {
        let (mut from, mut emitted) = (0, 0);
        std::iter::from_fn(move || {
            loop {
                let (found, index) = self.trie.find(text.as_bytes(), from)?;
                from = found.end;
                let rule = self.tokens.get(index as usize)?;
                let (before, after) = (&text[..found.start], &text[found.end..]);
                let in_word = || {
                    before.chars().next_back().is_some_and(unicode::is_word)
                        || after.chars().next().is_some_and(unicode::is_word)
                };
                if rule.single_word && in_word() {
                    continue;
                }
                let start =
                    if rule.lstrip { before.trim_end().len().max(emitted) } else { found.start };
                let end =
                    if rule.rstrip { text.len() - after.trim_start().len() } else { found.end };
                emitted = end;
                return Some(Match { id: rule.id, range: start..end });
            }
        })
    }
}
