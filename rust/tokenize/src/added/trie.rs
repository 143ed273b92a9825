//! Leftmost-longest search for a set of byte strings.

use std::ops::Range;

/// No token ends at this node.
const NOTHING: u32 = u32::MAX;

/// One prefix of the tokens.
struct Node {
    /// The token that ends here.
    token: u32,
    /// The bytes that go on, ascending, and where they lead.
    edges: Vec<(u8, u32)>,
}

/// The tokens by their prefixes.
pub(super) struct Trie {
    nodes: Vec<Node>,
    /// The bytes that begin a token.
    first: Vec<u8>,
    begins: [bool; 256],
}

impl Default for Trie {
    fn default() -> Self {
        let root = Node { token: NOTHING, edges: Vec::new() };
        Self { nodes: vec![root], first: Vec::new(), begins: [false; 256] }
    }
}

impl Trie {
    /// Adds a token, which is not empty; `false` if it is there already.
    pub(super) fn insert(&mut self, content: &[u8], token: u32) -> bool {
        let mut node = 0;
        for byte in content {
            let next = self.nodes.len();
            let edges = &mut self.nodes[node].edges;
            node = match edges.binary_search_by_key(byte, |edge| edge.0) {
                Ok(place) => edges[place].1 as usize,
                Err(place) => {
                    let Ok(number) = u32::try_from(next) else { return false };
                    edges.insert(place, (*byte, number));
                    self.nodes.push(Node { token: NOTHING, edges: Vec::new() });
                    next
                }
            };
        }
        let free = self.nodes[node].token == NOTHING && node != 0;
        self.nodes[node].token = token;
        free
    }

    /// To be called when all tokens are in.
    pub(super) fn finish(&mut self) {
        self.first = self.nodes[0].edges.iter().map(|edge| edge.0).collect();
        for byte in &self.first {
            self.begins[usize::from(*byte)] = true;
        }
    }

    /// The first place at or after `from` where a token begins, and the longest one there.
    pub(super) fn find(&self, text: &[u8], mut from: usize) -> Option<(Range<usize>, u32)> {
        loop {
            let rest = text.get(from..)?;
            let candidate = match self.first.as_slice() {
                [] => None,
                [a] => memchr::memchr(*a, rest),
                [a, b] => memchr::memchr2(*a, *b, rest),
                [a, b, c] => memchr::memchr3(*a, *b, *c, rest),
                _ => rest.iter().position(|byte| self.begins[usize::from(*byte)]),
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
        let (mut node, mut found) = (&self.nodes[0], None);
        for (at, byte) in (start..).zip(text.get(start..)?) {
            let Ok(place) = node.edges.binary_search_by_key(byte, |edge| edge.0) else { break };
            node = &self.nodes[node.edges[place].1 as usize];
            if node.token != NOTHING {
                found = Some((at + 1, node.token));
            }
        }
        found
    }
}
