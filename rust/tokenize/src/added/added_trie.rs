//! Leftmost-longest search for a set of byte strings.

use std::ops::Range;

/// The value for a prefix at which no token ends.
const NOTHING: u32 = u32::MAX;

/// One prefix of the tokens, while the trie is built.
struct TriePrefix {
    /// The token that is equal to the prefix.
    token: u32,
    /// The next bytes, ascending, each with the index of its prefix.
    edges: Vec<(u8, u32)>,
}

/// A run of bytes without branches, and the branches at its end.
struct TrieNode {
    bytes: Vec<u8>,
    token: u32,
    edges: Vec<(u8, u32)>,
}

/// A trie of byte strings (the tokens) that is being built.
pub(super) struct AddedTrieBuilder(Vec<TriePrefix>);

impl Default for AddedTrieBuilder {
    fn default() -> Self {
        Self(vec![TriePrefix { token: NOTHING, edges: Vec::new() }])
    }
}

impl AddedTrieBuilder {
    /// Adds a token, which is not empty. Returns `false` if the trie has it already.
    pub(super) fn insert(&mut self, content: &[u8], token: u32) -> bool {
        let mut node = 0;
        for byte in content {
            let next = self.0.len();
            let edges = &mut self.0[node].edges;
            node = match edges.binary_search_by_key(byte, |edge| edge.0) {
                Ok(place) => edges[place].1 as usize,
                Err(place) => {
                    let Ok(number) = u32::try_from(next) else { return false };
                    edges.insert(place, (*byte, number));
                    self.0.push(TriePrefix { token: NOTHING, edges: Vec::new() });
                    next
                }
            };
        }
        let free = self.0[node].token == NOTHING && node != 0;
        self.0[node].token = token;
        free
    }

    /// The finished trie.
    pub(super) fn finish(self) -> AddedTrie {
        let first: Vec<u8> = self.0[0].edges.iter().map(|edge| edge.0).collect();
        let mut is_first = [false; 256];
        for byte in &first {
            is_first[usize::from(*byte)] = true;
        }
        // The prefix at which each node begins. Nodes are numbered in the order in which they are found.
        let mut starts = vec![0];
        let mut nodes = Vec::new();
        while let Some(&start) = starts.get(nodes.len()) {
            let (mut prefix, mut bytes) = (&self.0[start], Vec::new());
            while let ([(byte, next)], NOTHING) = (prefix.edges.as_slice(), prefix.token)
                && !nodes.is_empty()
            {
                bytes.push(*byte);
                prefix = &self.0[*next as usize];
            }
            // There are no more nodes than prefixes, whose number fits.
            let numbers = u32::try_from(starts.len()).unwrap_or(u32::MAX)..;
            let edges = prefix.edges.iter().zip(numbers).map(|((byte, _), number)| (*byte, number));
            nodes.push(TrieNode { bytes, token: prefix.token, edges: edges.collect() });
            starts.extend(prefix.edges.iter().map(|(_, next)| *next as usize));
        }
        AddedTrie { nodes, first, is_first }
    }
}

/// A trie of the tokens.
pub(super) struct AddedTrie {
    nodes: Vec<TrieNode>,
    /// The first byte of each token.
    first: Vec<u8>,
    is_first: [bool; 256],
}

impl AddedTrie {
    /// The first position at or after `from` where a token begins, and the longest token there.
    pub(super) fn find(&self, text: &[u8], mut from: usize) -> Option<(Range<usize>, u32)> {
        loop {
            let rest = text.get(from..)?;
            let candidate = match self.first.as_slice() {
                [] => None,
                [a] => memchr::memchr(*a, rest),
                [a, b] => memchr::memchr2(*a, *b, rest),
                [a, b, c] => memchr::memchr3(*a, *b, *c, rest),
                _ => rest.iter().position(|byte| self.is_first[usize::from(*byte)]),
            };
            let start = from + candidate?;
            if let Some((end, token)) = self.longest(text, start) {
                return Some((start..end, token));
            }
            from = start + 1;
        }
    }

    /// The longest token that begins at `start`, and its end.
    fn longest(&self, text: &[u8], start: usize) -> Option<(usize, u32)> {
        let (mut node, mut found, mut at) = (&self.nodes[0], None, start);
        while let Some(rest) = text.get(at..).and_then(|rest| rest.strip_prefix(&node.bytes[..])) {
            at = text.len() - rest.len();
            if node.token != NOTHING {
                found = Some((at, node.token));
            }
            let next =
                rest.first().map(|byte| node.edges.binary_search_by_key(byte, |edge| edge.0));
            let Some(Ok(place)) = next else { break };
            node = &self.nodes[node.edges[place].1 as usize];
            at += 1;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All matches, leftmost first and longest at each place, found by comparing with each token.
    fn compared(tokens: &[&str], text: &str) -> Vec<(Range<usize>, u32)> {
        let at = |start: usize| {
            let rest = &text.as_bytes()[start..];
            let here =
                tokens.iter().zip(0..).filter(|(token, _)| rest.starts_with(token.as_bytes()));
            here.max_by_key(|(token, _)| token.len())
                .map(|(token, number)| (start..start + token.len(), number))
        };
        (0..text.len()).filter_map(at).collect()
    }

    #[test]
    fn the_longest_token_is_found_at_every_place() {
        let cases: [&[&str]; 6] = [
            &["<|im_end|>"],
            &["<|im_end|>", "<|im_start|>", "<|", "<|im"],
            &["a", "ab", "abcd", "abce", "b"],
            &["é", "è", "ê"],
            &["aaa", "aa", "a"],
            &["<a>", "[b]", "{c}", "(d)", "<a><a>"],
        ];
        let text = "<|im_start|>x<|im_end|><|im_en <|<|i abce abcx abcd éè aaaaa <a><a>[b]{c}(d)(d";
        for tokens in cases {
            let mut builder = AddedTrieBuilder::default();
            for (token, number) in tokens.iter().zip(0..) {
                assert!(builder.insert(token.as_bytes(), number));
                assert!(!builder.insert(token.as_bytes(), number));
            }
            let (trie, mut from, mut found) = (builder.finish(), 0, Vec::new());
            while let Some((range, token)) = trie.find(text.as_bytes(), from) {
                from = range.start + 1;
                found.push((range, token));
            }
            assert_eq!(found, compared(tokens, text), "{tokens:?}");
        }
    }

    #[test]
    fn nothing_is_found_where_there_are_no_tokens() {
        assert_eq!(AddedTrieBuilder::default().finish().find(b"text", 0), None);
    }
}
