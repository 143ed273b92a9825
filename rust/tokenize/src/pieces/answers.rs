//! What the vocabulary answers for a whole piece, shared by all threads: one cache line a question.

use super::key::{Key, LONGEST};
use super::{Vocabulary, fold};
use crate::machine::prefetch;

/// How many tokens a line holds.
const WIDTH: usize = 3;

/// Tokens a line holds on average: more would overflow into the next one too often.
const FILL: usize = 2;

/// A cache line of tokens; a key of zeros is a free place.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Line {
    keys: [Key; WIDTH],
    answers: [Answer; WIDTH],
}

/// The id of a token, and whether the merges make it of its own text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer(u32);

/// Set where the merges make something else; ids are signed, so the bit is free.
const UNFORMED: u32 = 1 << 31;

impl Answer {
    /// `id` is not negative as a signed number.
    pub(crate) fn new(id: u32, formed: bool) -> Self {
        Self(if formed { id } else { id | UNFORMED })
    }

    /// The id.
    #[inline]
    pub(crate) fn id(self) -> u32 {
        self.0 & !UNFORMED
    }

    /// Whether the merges make the token of its own text.
    #[inline]
    pub(crate) fn is_formed(self) -> bool {
        self.0 & UNFORMED == 0
    }
}

/// The tokens of a vocabulary by their bytes.
pub(crate) struct Answers {
    lines: Vec<Line>,
    /// The tokens that are too long for a key.
    long: Vocabulary,
    /// What each of them is.
    of_long: Vec<Answer>,
}

impl Answers {
    /// The tokens with what they are; of equal tokens, the first counts.
    pub(crate) fn new<'a>(tokens: impl ExactSizeIterator<Item = (&'a [u8], Answer)>) -> Self {
        let lines = (tokens.len() / FILL + 1).next_power_of_two();
        let mut answers = Self {
            lines: vec![Line::default(); lines],
            long: Vocabulary::with_capacity(0),
            of_long: Vec::new(),
        };
        let mut long = Vec::new();
        for (token, answer) in tokens {
            if (1..=LONGEST).contains(&token.len()) {
                answers.insert(Key::new(token, 0, token.len()), answer);
            } else {
                long.push((token, answer));
            }
        }
        answers.long = Vocabulary::with_capacity(long.len());
        for (token, answer) in long {
            if answers.long.push(token).is_some() {
                answers.of_long.push(answer);
            }
        }
        answers
    }

    #[inline]
    fn place(&self, key: Key) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are taken")]
        let hash = fold(key.low, key.high) as usize;
        hash & (self.lines.len() - 1)
    }

    fn insert(&mut self, key: Key, answer: Answer) {
        let mut place = self.place(key);
        loop {
            let line = &mut self.lines[place];
            let free = line.keys.iter().position(|known| *known == key || *known == Key::default());
            if let Some(free) = free {
                if line.keys[free] != key {
                    line.keys[free] = key;
                    line.answers[free] = answer;
                }
                return;
            }
            place = (place + 1) & (self.lines.len() - 1);
        }
    }

    /// Has what [`Self::get`] will look at brought near.
    #[inline]
    pub(crate) fn prefetch(&self, key: Key) {
        prefetch(self.lines.as_ptr().wrapping_add(self.place(key)));
    }

    /// The token with the bytes of `key`, which is not that of a part.
    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<Answer> {
        let mut place = self.place(key);
        loop {
            let line = &self.lines[place];
            for (known, answer) in line.keys.iter().zip(line.answers) {
                if *known == key {
                    return Some(answer);
                }
            }
            if line.keys[WIDTH - 1] == Key::default() {
                return None;
            }
            place = (place + 1) & (self.lines.len() - 1);
        }
    }

    /// The token with the bytes of `piece`, of any length.
    pub(crate) fn find(&self, piece: &[u8]) -> Option<Answer> {
        if (1..=LONGEST).contains(&piece.len()) {
            return self.get(Key::new(piece, 0, piece.len()));
        }
        self.long.get(piece).map(|index| self.of_long[index as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_is_found_and_nothing_else() {
        let tokens: Vec<String> =
            (0..5000_u32).map(|n| format!("{:x}", n.wrapping_pow(4))).collect();
        let listed = (0..)
            .zip(&tokens)
            .map(|(id, token)| (token.as_bytes(), Answer::new(id, id.is_multiple_of(2))));
        let answers = Answers::new(listed.collect::<Vec<_>>().into_iter());
        for (id, token) in (0..).zip(&tokens) {
            let first = tokens.iter().position(|other| other == token);
            let found = answers.find(token.as_bytes()).expect("the token is there");
            assert_eq!(Some(found.id() as usize), first);
            assert_eq!(found.is_formed(), found.id().is_multiple_of(2), "{id}");
            assert_eq!(answers.find(format!("{token}-").as_bytes()), None);
            assert_eq!(answers.find(format!("{token}, and far behind it").as_bytes()), None);
        }
    }
}
