//! A prefix tree of the tokens of a vocabulary: it finds the longest token that a text begins with.

/// The value for a node at which no token ends.
const NOTHING: u32 = u32::MAX;

/// A prefix tree. The nodes of one depth are adjacent, and so are the children of a node.
pub(crate) struct Prefixes {
    /// The index of the first child of each node; the children end at the first child of the next node.
    children: Vec<u32>,
    /// The byte that leads to each node.
    bytes: Vec<u8>,
    /// The id of the token that ends at each node, or [`NOTHING`].
    ids: Vec<u32>,
}

/// The root of the tree, which is the empty prefix.
pub(crate) const ROOT: u32 = 0;

impl Prefixes {
    /// The tree of `tokens`, with their ids. Ids must not be `u32::MAX`; of equal tokens one is kept.
    pub(crate) fn new(mut tokens: Vec<(&[u8], u32)>) -> Self {
        tokens.sort_unstable();
        let mut tree = Self { children: Vec::new(), bytes: vec![0], ids: Vec::new() };
        // Each node of the current depth, with the range of tokens that begin with its prefix.
        let mut nodes = vec![(0, tokens.len())];
        let mut depth = 0;
        while !nodes.is_empty() {
            let mut next = Vec::new();
            for (start, end) in nodes {
                let (mut at, mut id) = (start, NOTHING);
                while at < end && tokens[at].0.len() == depth {
                    id = tokens[at].1;
                    at += 1;
                }
                tree.ids.push(id);
                tree.children.push(index(tree.bytes.len()));
                while at < end {
                    let byte = tokens[at].0[depth];
                    let group = &tokens[at..end];
                    let after = at + group.partition_point(|token| token.0[depth] == byte);
                    tree.bytes.push(byte);
                    next.push((at, after));
                    at = after;
                }
            }
            nodes = next;
            depth += 1;
        }
        tree.children.push(index(tree.bytes.len()));
        tree
    }

    /// The child of `node` for `byte`.
    #[inline]
    fn child(&self, node: u32, byte: u8) -> Option<u32> {
        let start = self.children[node as usize] as usize;
        let end = self.children[node as usize + 1] as usize;
        let bytes = &self.bytes[start..end];
        let place = if bytes.len() > 8 {
            bytes.binary_search(&byte).ok()?
        } else {
            bytes.iter().position(|other| *other == byte)?
        };
        Some(index(start + place))
    }

    /// The node of a prefix.
    pub(crate) fn node(&self, beginning: &[u8]) -> Option<u32> {
        beginning.iter().try_fold(ROOT, |node, byte| self.child(node, *byte))
    }

    /// The longest token that continues from `node` by at least one byte of `text`: the number of bytes, and
    /// its id.
    #[inline]
    pub(crate) fn longest(&self, mut node: u32, text: &[u8]) -> Option<(usize, u32)> {
        let mut found = None;
        for (length, byte) in (1..).zip(text) {
            let Some(next) = self.child(node, *byte) else { break };
            node = next;
            let id = self.ids[node as usize];
            if id != NOTHING {
                found = Some((length, id));
            }
        }
        found
    }
}

/// The index of a node. The tree has fewer than 2^32 nodes: no readable file has so many bytes of tokens.
fn index(place: usize) -> u32 {
    u32::try_from(place).expect("a vocabulary is shorter than 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_token_wins_and_a_beginning_alone_is_none() {
        let tokens: [(&[u8], u32); 4] = [(b"ab", 1), (b"abcd", 2), (b"##b", 3), (b"", 4)];
        let tree = Prefixes::new(tokens.to_vec());
        assert_eq!(tree.longest(ROOT, b"abcx"), Some((2, 1)));
        assert_eq!(tree.longest(ROOT, b"abcdx"), Some((4, 2)));
        assert_eq!(tree.longest(ROOT, b"b"), None);
        let continuing = tree.node(b"##").expect("a token begins so");
        assert_eq!(tree.longest(continuing, b"bb"), Some((1, 3)));
        assert_eq!(tree.node(b"x"), None);
    }
}
