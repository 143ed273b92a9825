//! The tokens of a vocabulary, found by their bytes or by their index.

use std::ops::Range;

use super::hash;
use super::key::{LONGEST, PieceKey};
use super::piece_lines::PieceLines;

/// The position of a token's bytes in a text, for a look-up.
pub(crate) struct TokenName {
    place: Range<usize>,
    key: Option<PieceKey>,
}

impl TokenName {
    /// Padding that should follow the last name in a text, so that names can be read sixteen bytes at a time.
    pub(crate) const BEHIND: [u8; 16] = [0; 16];

    fn new(text: &[u8], place: Range<usize>) -> Self {
        let fits = (1..=LONGEST).contains(&place.len());
        Self { key: fits.then(|| PieceKey::new(text, place.start, place.len())), place }
    }
}

/// Tokens, in the order in which they were added.
pub(crate) struct Vocabulary {
    bytes: Vec<u8>,
    /// The end of each token in `bytes`.
    ends: Vec<u32>,
    /// The index of each token that fits into a key.
    short: PieceLines,
    /// A hash table of the other tokens: the upper half of the hash, and the index plus one; 0 is a free
    /// entry. It is at most half full.
    long: Vec<(u32, u32)>,
    long_count: usize,
}

impl Vocabulary {
    /// An empty vocabulary with room for `count` tokens.
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(count * 8),
            ends: Vec::with_capacity(count),
            short: PieceLines::with_capacity(count),
            long: vec![(0, 0); 2],
            long_count: 0,
        }
    }

    /// Adds a token and returns its index; `None` if the vocabulary has it already. There must be room for
    /// it.
    pub(crate) fn push(&mut self, token: &[u8]) -> Option<u32> {
        self.push_named(token, &TokenName::new(token, 0..token.len()))
    }

    /// As [`Self::push`], for a name in `text`.
    pub(crate) fn push_named(&mut self, text: &[u8], name: &TokenName) -> Option<u32> {
        let token = &text[name.place.clone()];
        let index = u32::try_from(self.ends.len()).ok()?;
        let end = u32::try_from(self.bytes.len() + token.len()).ok()?;
        if let Some(key) = name.key {
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

    /// The index of a long token, or the free entry for it.
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
        match PieceKey::of(token) {
            Some(key) => self.short.get(key),
            None => self.find(token).ok(),
        }
    }

    /// As [`Self::get`], for a name in `text`.
    #[inline]
    pub(crate) fn get_named(&self, text: &[u8], name: &TokenName) -> Option<u32> {
        match name.key {
            Some(key) => self.short.get(key),
            None => self.find(&text[name.place.clone()]).ok(),
        }
    }

    /// The name at `place` in `text`; the memory for its look-up is prefetched.
    #[inline]
    pub(crate) fn name(&self, text: &[u8], place: Range<usize>) -> TokenName {
        let name = TokenName::new(text, place);
        if let Some(key) = name.key {
            self.short.prefetch(key);
        }
        name
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
    pub(super) fn short(&self) -> &PieceLines {
        &self.short
    }

    /// The number of tokens.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
}
