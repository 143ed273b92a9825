//! [`Matcher`]: finds added tokens in a text, with the blanks and word ends that they ask for.

use std::ops::Range;

use super::added_token::AddedToken;
use super::added_trie::{AddedTrie, AddedTrieBuilder};
use crate::unicode;

/// Finds the added tokens of one phase: the tokens that match the raw text, or the tokens that match the
/// normalized text.
pub(crate) struct Matcher {
    trie: AddedTrie,
    tokens: Vec<AddedRule>,
    /// The text that each token matches.
    contents: Vec<Box<str>>,
}

/// The id and the matching options of one added token.
#[derive(Clone, Copy)]
struct AddedRule {
    id: u32,
    single_word: bool,
    lstrip: bool,
    rstrip: bool,
}

/// An added token found in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Match {
    pub(crate) id: u32,
    /// The byte range of the match, stripped whitespace included.
    pub(crate) range: Range<usize>,
}

impl Default for Matcher {
    /// A matcher without tokens.
    fn default() -> Self {
        Self {
            trie: AddedTrieBuilder::default().finish(),
            tokens: Vec::new(),
            contents: Vec::new(),
        }
    }
}

impl Matcher {
    /// A matcher of tokens, each given with the text that it matches. `None` if two tokens match the same
    /// text.
    pub(crate) fn new<'a>(
        tokens: impl IntoIterator<Item = (&'a str, &'a AddedToken)>,
    ) -> Option<Self> {
        let (mut trie, mut rules, mut contents) =
            (AddedTrieBuilder::default(), Vec::new(), Vec::new());
        for (pattern, token) in tokens {
            let index = u32::try_from(rules.len()).ok()?;
            if !trie.insert(pattern.as_bytes(), index) {
                return None;
            }
            rules.push(AddedRule {
                id: token.id,
                single_word: token.single_word,
                lstrip: token.lstrip,
                rstrip: token.rstrip,
            });
            contents.push(pattern.into());
        }
        Some(Self { trie: trie.finish(), tokens: rules, contents })
    }

    /// True if the matcher has no tokens.
    pub(crate) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// The range of `text` from the first match to the last. `None` if a surrounding text could change these
    /// matches, or if these matches could change the matches around them.
    pub(crate) fn settled(&self, text: &str) -> Option<Range<usize>> {
        let mut found = self.found(text);
        let (first, begin) = found.next()?;
        let (last, end) = found.last().unwrap_or_else(|| (first, begin.clone()));
        let looks_around = first.single_word || first.lstrip || last.single_word || last.rstrip;
        let part = &text[begin.start..end.end];
        // `single_word`, `lstrip` and `rstrip` of neighbouring tokens look at word characters and blanks at
        // the ends.
        let is_plain =
            |end: Option<char>| end.is_some_and(|c| !unicode::is_word(c) && !c.is_whitespace());
        let plain = is_plain(part.chars().next()) && is_plain(part.chars().next_back());
        let settled =
            plain && !looks_around && !self.contents.iter().any(|token| overhangs(token, part));
        settled.then_some(begin.start..end.end)
    }

    /// The start of the last match in `text` that all texts have which begin with `text`; 0 if there is none.
    ///
    /// Tokens that look at the characters around them are not counted.
    pub(crate) fn last_start(&self, text: &str) -> usize {
        let longest = self.contents.iter().map(|content| content.len()).max().unwrap_or(0);
        let is_plain = |rule: &AddedRule| !(rule.single_word || rule.lstrip || rule.rstrip);
        let found = self.found(text).filter(|(rule, _)| is_plain(rule));
        // A longer token may match where the text goes on.
        let found = found.map(|(_, range)| range.start);
        found.take_while(|start| start + longest <= text.len()).last().unwrap_or(0)
    }

    /// All matches in `text`: leftmost first, the longest at each place.
    pub(crate) fn matches<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Match> + 'a {
        self.found(text).map(|(rule, range)| Match { id: rule.id, range })
    }

    /// All matches in `text`, with their rules.
    ///
    /// The search continues after the content of a match, before any whitespace that the match strips.
    fn found<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (AddedRule, Range<usize>)> + 'a {
        let (mut from, mut emitted) = (0, 0);
        std::iter::from_fn(move || {
            loop {
                let (found, index) = self.trie.find(text.as_bytes(), from)?;
                from = found.end;
                let rule = *self.tokens.get(index as usize)?;
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
                return Some((rule, start..end));
            }
        })
    }
}

/// True if `token` can overlap one end of `part`, or contain `part`, in some text.
fn overhangs(token: &str, part: &str) -> bool {
    let (token, part) = (token.as_bytes(), part.as_bytes());
    let agree = |a: &[u8], b: &[u8]| a.iter().zip(b).all(|(a, b)| a == b);
    let before = (1..token.len()).any(|cut| agree(&token[cut..], part));
    let behind = (1..token.len()).any(|cut| {
        let (inside, part) = (token[..cut].iter().rev(), part.iter().rev());
        inside.zip(part).all(|(a, b)| a == b)
    });
    before || behind
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(content: &str) -> AddedToken {
        AddedToken {
            id: 0,
            content: content.to_owned(),
            single_word: false,
            lstrip: false,
            rstrip: false,
            normalized: false,
            special: true,
        }
    }

    fn settled(tokens: &[AddedToken], text: &str) -> Option<Range<usize>> {
        let tokens = tokens.iter().map(|token| (token.content.as_str(), token));
        Matcher::new(tokens).expect("no token is there twice").settled(text)
    }

    #[test]
    fn what_stands_between_tokens_is_settled() {
        let tokens = [token("<a>"), token("<b>")];
        assert_eq!(settled(&tokens, "x<a>user<b>\n"), Some(1..11));
        assert_eq!(settled(&tokens, "<b>"), Some(0..3));
        assert_eq!(settled(&tokens, "user\n"), None);
    }

    #[test]
    fn nothing_is_settled_that_a_token_can_reach_over() {
        for other in ["<a>b", "b<a>", "x<", ">x", "x<a>x", ">>", "<<"] {
            assert_eq!(settled(&[token("<a>"), token(other)], "<a>"), None, "{other}");
        }
        assert_eq!(settled(&[token("<a>"), token("a>x"), token("x<x")], "<a>"), None);
        assert_eq!(settled(&[token("<a>"), token("x<x"), token("<a")], "<a>"), Some(0..3));
    }

    #[test]
    fn nothing_is_settled_that_blanks_or_words_end() {
        for content in [" <a>", "<a>\n", "a>", "<a"] {
            assert_eq!(settled(&[token(content)], content), None, "{content:?}");
        }
        let stripping = AddedToken { rstrip: true, ..token("<a>") };
        assert_eq!(settled(std::slice::from_ref(&stripping), "<a> "), None);
        assert_eq!(settled(&[stripping, token("<b>")], "<a> <b>"), Some(0..7));
    }

    #[test]
    fn the_last_match_is_one_that_no_longer_text_changes() {
        let stripping = AddedToken { lstrip: true, ..token("<c>") };
        let tokens = [token("<a>"), token("<a>bc"), stripping];
        let tokens = tokens.iter().map(|token| (token.content.as_str(), token));
        let matcher = Matcher::new(tokens).expect("no token is there twice");
        for (text, start) in
            [("x<a>y", 0), ("x<a>yz", 1), ("<a><a>12<a>b", 3), ("<a>12 <c>12", 0), ("", 0)]
        {
            assert_eq!(matcher.last_start(text), start, "{text}");
        }
    }

    #[test]
    fn nothing_is_settled_that_ends_with_a_token_that_looks_around() {
        let plain = token("<a>");
        let stripping = AddedToken { lstrip: true, rstrip: true, ..token("<b>") };
        let alone = AddedToken { single_word: true, ..token("<c>") };
        let tokens = [plain, stripping, alone];
        for text in ["<b>", "<c>", "<a><b>", "<c><a>"] {
            assert_eq!(settled(&tokens, text), None, "{text}");
        }
        assert_eq!(settled(&tokens, "<a> <b>x<c><a>"), Some(0..14));
    }
}
