//! The static piece table: every token by its bytes, shared by all threads.

use super::hash;

/// The tokens of a vocabulary, found by their bytes or by their index.
pub(crate) struct Vocabulary {
    bytes: Vec<u8>,
    /// Where each token ends in `bytes`.
    ends: Vec<u32>,
    /// Upper half of the hash, and the token's index plus one; 0 where nothing is.
    slots: Vec<(u32, u32)>,
}

impl Vocabulary {
    /// An empty vocabulary with room for `count` tokens.
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(count * 8),
            ends: Vec::with_capacity(count),
            slots: vec![(0, 0); (count.max(1) * 2).next_power_of_two()],
        }
    }

    /// Adds a token; `None` if its bytes are there already.
    pub(crate) fn push(&mut self, token: &[u8]) -> Option<u32> {
        let (place, tag) = self.find(token).err()?;
        self.bytes.extend_from_slice(token);
        self.ends.push(u32::try_from(self.bytes.len()).ok()?);
        let count = u32::try_from(self.ends.len()).ok()?;
        self.slots[place] = (tag, count);
        Some(count - 1)
    }

    /// Where a token stands, or where it would.
    fn find(&self, token: &[u8]) -> Result<u32, (usize, u32)> {
        let hash = hash(token);
        #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
        let (mut place, tag) = (hash as usize, (hash >> 32) as u32);
        loop {
            place &= self.slots.len() - 1;
            let (found, next) = self.slots[place];
            match next.checked_sub(1) {
                None => return Err((place, tag)),
                Some(index) if found == tag && self.token(index) == token => return Ok(index),
                Some(_) => place += 1,
            }
        }
    }

    /// The index of a token.
    pub(crate) fn get(&self, token: &[u8]) -> Option<u32> {
        self.find(token).ok()
    }

    /// The bytes of a token.
    pub(crate) fn token(&self, index: u32) -> &[u8] {
        let index = index as usize;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..self.ends[index] as usize]
    }

    /// The number of tokens.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
}
