//! [`Encoding`], the result of a text, and [`SpecialTokens`], the choice of tokens around it.

use std::ops::Range;

/// The treatment of tokens that the post-processor may add around a text (`<s>`, `[CLS]`, …).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialTokens {
    /// As `add_special_tokens=True`.
    Add,
    /// As `add_special_tokens=False`: for text that already carries them, such as a rendered chat.
    Omit,
}

/// The ids and touched tokens of a text: a buffer that one thread keeps and clears.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoding {
    /// Token ids, in order.
    pub ids: Vec<u32>,
    /// For each span, the range of positions in `ids` that it touches; empty where it touches none.
    pub touched: Vec<Range<usize>>,
}

impl Encoding {
    /// An empty buffer with room for `ids` ids. For millions of ids, this costs the system less than a buffer
    /// that grows.
    pub fn with_room(ids: usize) -> Self {
        Self { ids: crate::hardware::with_room(ids), touched: Vec::new() }
    }

    /// Empties the buffer, keeping its memory.
    pub fn clear(&mut self) {
        self.ids.clear();
        self.touched.clear();
    }
}
