//! [`Padding`]: the length to which rows are padded, the end, and the token.

use std::num::NonZeroU32;

use crate::config::{OnRemainder, Options, PadTo, RowColumn, RowOrder, Side};
use crate::error::{Error, Result};
use crate::objective::UNTRAINED;
use crate::util::wording::{message, set};

/// The value of padding in `source_file`, `source_row`, `source_turn` and `source_start`.
pub(super) const NO_SOURCE: i32 = -1;

/// The value of a column in a row of padding with this token; `None` for columns that padding has values of its own in,
/// such as positions and lengths.
pub fn padding_value(column: RowColumn, token: i64) -> Option<i64> {
    match column {
        RowColumn::InputIds => Some(token),
        RowColumn::Labels => Some(UNTRAINED.into()),
        RowColumn::SourceFile
        | RowColumn::SourceRow
        | RowColumn::SourceTurn
        | RowColumn::SourceStart => Some(NO_SOURCE.into()),
        RowColumn::LossWeights
        | RowColumn::AttentionMask
        | RowColumn::DocumentIds
        | RowColumn::UnpaddedLengths
        | RowColumn::TokenTypeIds => Some(0),
        _ => None,
    }
}

/// The length to which rows are padded, the end at which, and the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Padding {
    /// Rows are filled up to a multiple of this.
    multiple: u32,
    side: Side,
    id: u32,
}

impl Padding {
    /// No padding.
    pub const NONE: Self = Self { multiple: 1, side: Side::Right, id: 0 };

    /// The padding that the options ask for. `id` is the default token.
    ///
    /// Fails with [`Error::Option`] about the option that asks for padding, if there is no token.
    pub fn new(options: &Options, id: Option<u32>) -> Result<Self> {
        let packing = &options.rows.packing;
        let aligned = packing.align_documents_to;
        let multiple = match options.rows.pad_to {
            PadTo::Nothing => aligned.map_or(1, NonZeroU32::get),
            PadTo::MaxLength => packing.row_limit().get(),
            PadTo::Multiple(multiple) => multiple.get(),
        };
        let whole_rows =
            packing.order() == RowOrder::Balanced && packing.on_remainder == OnRemainder::Pad;
        let wanted_by = match options.rows.pad_to {
            PadTo::MaxLength | PadTo::Multiple(_) => "padding.to",
            PadTo::Nothing if aligned.is_some() => "strategy.align_to",
            PadTo::Nothing if whole_rows => "order.on_remainder",
            PadTo::Nothing => return Ok(Self::NONE),
        };
        let id = options.rows.pad_token_id.or(id).ok_or_else(|| {
            let needed = "needs an id to pad with, and no tokenizer names one; give it, such as ";
            let id = set("padding.token_id", 0_u32);
            let reason = match options.rows.pad_to {
                PadTo::Nothing => message![needed, id],
                PadTo::MaxLength => message![needed, set("padding.to", "max_length"), id],
                PadTo::Multiple(to) => message![needed, set("padding.to", to.get()), id],
            };
            Error::option(wanted_by, reason)
        })?;
        Ok(Self { multiple, side: options.rows.padding_side, id })
    }

    /// The padding of targets, to their own limit if there is one.
    pub(super) fn of_targets(self, options: &Options) -> Self {
        let most = options.rows.packing.max_target_length;
        match (options.rows.pad_to, most) {
            (PadTo::MaxLength, Some(most)) => Self { multiple: most.get(), ..self },
            (PadTo::MaxLength | PadTo::Multiple(_), _) => self,
            (PadTo::Nothing, _) => Self { multiple: 1, ..self },
        }
    }

    /// The padding to the same lengths with this token.
    #[must_use]
    pub(super) fn with_id(self, id: u32) -> Self {
        Self { id, ..self }
    }

    /// The padding tokens of a row of `tokens`. A row without tokens is padded to the full length.
    pub(super) fn room(self, tokens: usize) -> u32 {
        let tokens = u32::try_from(tokens).expect("a row holds fewer than 2^31 tokens");
        tokens.max(1).next_multiple_of(self.multiple) - tokens
    }

    /// The length of a row of `tokens` with its padding.
    pub(crate) fn tokens(self, tokens: usize) -> u64 {
        tokens as u64 + u64::from(self.room(tokens))
    }

    /// The padding of a row before its documents, and after them.
    pub(super) fn sides<T>(self, padding: Option<T>) -> (Option<T>, Option<T>) {
        match self.side {
            Side::Left => (padding, None),
            Side::Right => (None, padding),
        }
    }

    /// The id, signed as in Arrow; no vocabulary comes near 2³¹.
    pub(super) fn id(self) -> i32 {
        self.id.cast_signed()
    }
}
