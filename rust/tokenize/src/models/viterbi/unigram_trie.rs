//! A double-array trie: finds all tokens that a text begins with, with one look-up a byte.

/// No token ends at the node, or the place is free.
const NOTHING: u32 = u32::MAX;

/// The parent of the root, which no byte leads to.
const ROOT: u32 = u32::MAX - 1;

/// The number of free places that are tried for the children of a node before new places are made.
const TRIES: usize = 64;

/// The number of places that are made at a time: enough for all children of one node.
const BLOCK: usize = 256;

/// A node, which stands for a prefix of tokens. Its score lies beside it: most time of the search goes into waiting for
/// memory, and this is one line of it.
#[derive(Clone, Copy)]
struct UnigramNode {
    /// The place of each child, combined by XOR with the child's byte.
    base: u32,
    /// The place of the parent.
    parent: u32,
    /// The score of the token that ends here, or not a number.
    score: f64,
}

/// A free place.
const FREE: UnigramNode = UnigramNode { base: 0, parent: NOTHING, score: f64::NAN };

/// A trie of the tokens of a unigram model.
pub(super) struct UnigramTrie {
    nodes: Box<[UnigramNode]>,
    /// The token that ends at each node, or [`NOTHING`].
    tokens: Box<[u32]>,
}

impl UnigramTrie {
    /// A trie of tokens with their numbers, by which `scores` lists their finite scores; of equal tokens the last one
    /// is kept.
    pub(super) fn new<'a>(tokens: impl Iterator<Item = (&'a [u8], u32)>, scores: &[f64]) -> Self {
        let mut sorted: Vec<(&[u8], u32)> = tokens.collect();
        sorted.sort_unstable();
        let mut builder =
            UnigramTrieBuilder { nodes: Vec::new(), tokens: Vec::new(), free: Vec::new() };
        builder.extend();
        builder.nodes[0].parent = ROOT;
        // Each node, with the length of its prefix and the tokens that begin with it.
        let mut waiting = vec![(0_usize, 0_usize, sorted.as_slice())];
        while let Some((place, depth, mut tokens)) = waiting.pop() {
            while let Some(((token, number), rest)) = tokens.split_first() {
                if token.len() > depth {
                    break;
                }
                builder.nodes[place].score = scores[*number as usize];
                builder.tokens[place] = *number;
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
        Self { nodes: builder.nodes.into(), tokens: builder.tokens.into() }
    }

    /// Calls `found` with every token that `text` begins with, the shortest first: its number of bytes, its score, and
    /// its place.
    #[inline]
    pub(super) fn each(&self, text: &[u8], mut found: impl FnMut(usize, f64, u32)) {
        let (mut at, mut base) = (0, self.nodes[0].base);
        for (length, byte) in (1..).zip(text) {
            let place = base ^ u32::from(*byte);
            let node = &self.nodes[place as usize];
            if node.parent != at {
                return;
            }
            if !node.score.is_nan() {
                found(length, node.score, place);
            }
            (at, base) = (place, node.base);
        }
    }

    /// The number of the token at a place where one ends.
    #[inline]
    pub(super) fn token(&self, place: u32) -> u32 {
        self.tokens[place as usize]
    }

    /// The number of a token.
    pub(super) fn get(&self, token: &[u8]) -> Option<u32> {
        let mut last = None;
        self.each(token, |length, _, place| {
            last = (length == token.len()).then(|| self.token(place));
        });
        last
    }
}

/// A trie that is being built.
struct UnigramTrieBuilder {
    nodes: Vec<UnigramNode>,
    tokens: Vec<u32>,
    /// The places that were free at some time; some may be taken by now.
    free: Vec<usize>,
}

impl UnigramTrieBuilder {
    /// Adds new free places.
    fn extend(&mut self) {
        let start = self.nodes.len();
        self.nodes.resize(start + BLOCK, FREE);
        self.tokens.resize(start + BLOCK, NOTHING);
        self.free.extend((start..start + BLOCK).rev());
    }

    /// Takes a place for a child of `parent`.
    fn take(&mut self, place: usize, parent: usize) {
        self.nodes[place].parent = index(parent);
    }

    fn is_free(&self, place: usize) -> bool {
        self.nodes[place].parent == NOTHING
    }

    /// A base for which the places of all children of a node are free.
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

/// A place as it is stored. There are fewer than 2^32: no readable file has so many bytes of tokens.
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
            let trie = UnigramTrie::new(std::iter::once((&[byte][..], 7)), &[0.0; 8]);
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
            let numbered = (0..).zip(&tokens).map(|(number, token)| (token.as_bytes(), number));
            let score = |number: u32| -f64::from(number) - 1.0;
            let scores: Vec<f64> = (0..).map(score).take(tokens.len().max(1)).collect();
            let trie = UnigramTrie::new(numbered, &scores);
            let mut found = Vec::new();
            trie.each(text.as_bytes(), |length, found_score, place| {
                found.push((length, trie.token(place)));
                assert_eq!(found_score.to_bits(), score(trie.token(place)).to_bits());
            });
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
