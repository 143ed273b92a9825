//! [`Padding`]: how far rows are filled up, and with which id.

use crate::config::{Options, PadTo};
use crate::error::{Error, Result};

/// How far rows are filled up, and with which id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Padding {
    /// Rows are filled up to a multiple of this.
    multiple: u32,
    id: u32,
}

impl Padding {
    /// Rows as long as they are.
    pub const NONE: Self = Self { multiple: 1, id: 0 };

    /// What the options ask for; `id` is what fills rows up where they do not say.
    ///
    /// Fails with [`Error::Option`] about `pad_to` where nobody says.
    pub fn new(options: &Options, id: Option<u32>) -> Result<Self> {
        let multiple = match options.pad_to {
            PadTo::Nothing => return Ok(Self::NONE),
            PadTo::MaxLength => options.packing.max_length.get(),
            PadTo::Multiple(multiple) => multiple.get(),
        };
        let id = options.pad_token_id.or(id).ok_or_else(|| {
            Error::option(
                "pad_to",
                "needs an id to pad with, and no tokenizer names one; pass `pad_token_id`",
            )
        })?;
        Ok(Self { multiple, id })
    }

    /// The tokens that fill up a row of `tokens`.
    pub(super) fn room(self, tokens: usize) -> u32 {
        let tokens = u32::try_from(tokens).expect("a row holds fewer than 2^31 tokens");
        tokens.next_multiple_of(self.multiple) - tokens
    }

    /// The id, signed as in Arrow; no vocabulary comes near 2³¹.
    pub(super) fn id(self) -> i32 {
        self.id.cast_signed()
    }
}
