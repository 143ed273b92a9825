//! All tokens that a text begins with, by one look-up a byte.

/// No token ends at a node, and no node stands at a place.
const NOTHING: u32 = u32::MAX;

/// The parent of the first node, which no byte leads to.
const ROOT: u32 = u32::MAX - 1;

/// How many free places are tried for a node with several children before new ones are made.
const TRIES: usize = 64;

/// Places that are made together: all that one node's children can need.
const BLOCK: usize = 256;

/// A node: a beginning of tokens.
#[derive(Clone, Copy)]
struct Node {
    /// The place of a child, but for the byte that leads to it.
    base: u32,
    /// The place of the node that leads here.
    parent: u32,
    /// The token that ends here.
    token: u32,
}

/// A free place.
const FREE: Node = Node { base: 0, parent: NOTHING, token: NOTHING };

/// The tokens by their bytes.
pub(super) struct Trie(Box<[Node]>);

impl Trie {
    /// The tree of tokens with their numbers; of equal tokens the last one stays.
    pub(super) fn new<'a>(tokens: impl Iterator<Item = (&'a [u8], u32)>) -> Self {
        let mut sorted: Vec<(&[u8], u32)> = tokens.collect();
        sorted.sort_unstable();
        let mut builder = Builder { nodes: Vec::new(), free: Vec::new() };
        builder.extend();
        builder.nodes[0].parent = ROOT;
        // Each node with the tokens that begin so, and how many bytes that is.
        let mut waiting = vec![(0_usize, 0_usize, sorted.as_slice())];
        while let Some((place, depth, mut tokens)) = waiting.pop() {
            while let Some(((token, number), rest)) = tokens.split_first() {
                if token.len() > depth {
                    break;
                }
                builder.nodes[place].token = *number;
                tokens = rest;
            }
            let groups = || tokens.chunk_by(|(a, _), (b, _)| a[depth] == b[depth]);
            let bytes: Vec<u8> = groups().map(|group| group[0].0[depth]).collect();
            let base = builder.base(&bytes);
            builder.nodes[place].base = index(base);
            for (byte, group) in bytes.iter().zip(groups()) {
                let child = base ^ usize::from(*byte);
                builder.take(child, place);
                waiting.push((child, depth + 1, group));
            }
        }
        Self(builder.nodes.into())
    }

    /// Calls `found` with every token that `text` begins with, the shortest first: how many bytes, and its number.
    #[inline]
    pub(super) fn each(&self, text: &[u8], mut found: impl FnMut(usize, u32)) {
        let (mut at, mut base) = (0, self.0[0].base);
        for (length, byte) in (1..).zip(text) {
            let place = base ^ u32::from(*byte);
            let node = &self.0[place as usize];
            if node.parent != at {
                return;
            }
            if node.token != NOTHING {
                found(length, node.token);
            }
            (at, base) = (place, node.base);
        }
    }

    /// The number of a token.
    pub(super) fn get(&self, token: &[u8]) -> Option<u32> {
        let mut last = None;
        self.each(token, |length, number| last = (length == token.len()).then_some(number));
        last
    }
}

/// A tree that grows.
struct Builder {
    nodes: Vec<Node>,
    /// Places that were free once; those that still are count.
    free: Vec<usize>,
}

impl Builder {
    /// Makes new places.
    fn extend(&mut self) {
        let start = self.nodes.len();
        self.nodes.resize(start + BLOCK, FREE);
        self.free.extend((start..start + BLOCK).rev());
    }

    /// Has a node stand at a place.
    fn take(&mut self, place: usize, parent: usize) {
        self.nodes[place].parent = index(parent);
    }

    fn is_free(&self, place: usize) -> bool {
        self.nodes[place].parent == NOTHING
    }

    /// A base with which all children of a node find a free place.
    fn base(&mut self, bytes: &[u8]) -> usize {
        let Some(first) = bytes.first().map(|byte| usize::from(*byte)) else { return 0 };
        let mut tried = 0;
        let mut at = self.free.len();
        while at > 0 && tried < TRIES {
            at -= 1;
            let place = self.free[at];
            if !self.is_free(place) {
                self.free.swap_remove(at);
                continue;
            }
            let base = place ^ first;
            if bytes.iter().all(|byte| self.is_free(base ^ usize::from(*byte))) {
                return base;
            }
            tried += 1;
        }
        let base = self.nodes.len();
        self.extend();
        base
    }
}

/// A place, of which there are fewer than 2^32: so many bytes of tokens fit into no file that is read.
fn index(place: usize) -> u32 {
    u32::try_from(place).expect("a vocabulary is shorter than 4 GiB")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_byte_leads_back_to_the_first_node() {
        for byte in 1..=255_u8 {
            let trie = Trie::new(std::iter::once((&[byte][..], 7)));
            for first in 0..=255_u8 {
                let expected = (first == byte).then_some(7);
                assert_eq!(trie.get(&[first]), expected);
                assert_eq!(trie.get(&[first, byte]), None, "{byte} behind {first}");
            }
        }
    }

    proptest! {
        #[test]
        fn all_beginnings_of_a_text_are_found(
            tokens in prop::collection::vec("[a-c]{1,5}|[ -~]{1,3}|[é-ü中-丯]{1,2}", 0..200),
            text in "([a-c]|[ -~]|[é-ü中-丯]){0,8}",
        ) {
            let trie = Trie::new((0..).zip(&tokens).map(|(number, token)| (token.as_bytes(), number)));
            let mut found = Vec::new();
            trie.each(text.as_bytes(), |length, number| found.push((length, number)));
            let last = |length: usize| {
                let beginning = text.get(..length)?;
                let number = tokens.iter().rposition(|token| token == beginning)?;
                Some((length, u32::try_from(number).expect("few tokens")))
            };
            let expected: Vec<_> = (1..=text.len()).filter_map(last).collect();
            prop_assert_eq!(found, expected);
            for token in &tokens {
                let number = tokens.iter().rposition(|it| it == token).and_then(|it| u32::try_from(it).ok());
                prop_assert_eq!(trie.get(token.as_bytes()), number);
            }
        }
    }
}
