//! The tokens of a vocabulary, found by their bytes or by their index.

use super::hash;
use super::key::Key;
use super::lines::Lines;

/// Tokens, in the order in which they were added.
pub(crate) struct Vocabulary {
    bytes: Vec<u8>,
    /// Where each token ends in `bytes`.
    ends: Vec<u32>,
    /// The index of each token that fits into a key.
    short: Lines,
    /// Of each other token, the upper half of the hash, and its index plus one; 0 where nothing is. At most half full.
    long: Vec<(u32, u32)>,
    long_count: usize,
}

impl Vocabulary {
    /// An empty vocabulary with room for `count` tokens.
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(count * 8),
            ends: Vec::with_capacity(count),
            short: Lines::with_capacity(count),
            long: vec![(0, 0); 2],
            long_count: 0,
        }
    }

    /// Adds one of as many tokens as there is room for; `None` if its bytes are there already.
    pub(crate) fn push(&mut self, token: &[u8]) -> Option<u32> {
        let index = u32::try_from(self.ends.len()).ok()?;
        let end = u32::try_from(self.bytes.len() + token.len()).ok()?;
        if let Some(key) = Key::of(token) {
            if !self.short.insert(key, index) {
                return None;
            }
        } else {
            self.make_room();
            let (place, tag) = self.find(token).err()?;
            self.long[place] = (tag, index + 1);
            self.long_count += 1;
        }
        self.bytes.extend_from_slice(token);
        self.ends.push(end);
        Some(index)
    }

    /// Doubles the table of long tokens when it is half full.
    fn make_room(&mut self) {
        if self.long_count * 2 < self.long.len() {
            return;
        }
        let old = std::mem::take(&mut self.long);
        self.long = vec![(0, 0); old.len() * 2];
        for (tag, next) in old {
            if let Some(Err((place, _))) =
                next.checked_sub(1).map(|index| self.find(self.token(index)))
            {
                self.long[place] = (tag, next);
            }
        }
    }

    /// Where a long token stands, or where it would.
    fn find(&self, token: &[u8]) -> Result<u32, (usize, u32)> {
        let hash = hash(token);
        #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
        let (mut place, tag) = (hash as usize, (hash >> 32) as u32);
        loop {
            place &= self.long.len() - 1;
            let (found, next) = self.long[place];
            match next.checked_sub(1) {
                None => return Err((place, tag)),
                Some(index) if found == tag && self.token(index) == token => return Ok(index),
                Some(_) => place += 1,
            }
        }
    }

    /// The index of a token.
    #[inline]
    pub(crate) fn get(&self, token: &[u8]) -> Option<u32> {
        match Key::of(token) {
            Some(key) => self.short.get(key),
            None => self.find(token).ok(),
        }
    }

    /// Has what [`Self::get`] will look at brought near.
    #[inline]
    pub(crate) fn prefetch(&self, token: &[u8]) {
        if let Some(key) = Key::of(token) {
            self.short.prefetch(key);
        }
    }

    /// The bytes of a token.
    pub(crate) fn token(&self, index: u32) -> &[u8] {
        let index = index as usize;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..self.ends[index] as usize]
    }

    /// All tokens with their indices.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = (u32, &[u8])> + Clone {
        let mut start = 0;
        (0..).zip(self.ends.iter().map(move |end| {
            let token = &self.bytes[start..*end as usize];
            start = *end as usize;
            token
        }))
    }

    /// The tokens that fit into a key, with their indices.
    pub(super) fn short(&self) -> &Lines {
        &self.short
    }

    /// The number of tokens.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
}
