//! [`Stored`]: the columns of a batch, which are those of the rows, or in the compact layout what they are made of.

use crate::config::RowColumn;

/// A column of a batch of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// A column of the rows.
    Plain(RowColumn),
    /// The tokens as unsigned numbers.
    Ids(Width),
    /// The runs of labels: the first place of each in its row, and the place behind it.
    LabelSpans {
        /// Whether the label at a place is the token behind it.
        shifted: bool,
    },
    /// The weight of each run of labels.
    LabelWeights,
}

/// The bits of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// 16 bits.
    Short,
    /// 32 bits.
    Long,
}

impl Width {
    /// The width for a vocabulary; 32 bits where it is unknown.
    pub(super) fn of(largest_id: Option<u32>) -> Self {
        match largest_id {
            Some(id) if id <= u16::MAX.into() => Self::Short,
            _ => Self::Long,
        }
    }
}

impl Stored {
    /// The columns of the rows.
    pub(super) fn plain(columns: &[RowColumn]) -> Vec<Self> {
        columns.iter().copied().map(Self::Plain).collect()
    }

    /// The columns of the compact layout of rows with these columns, of which these can be made.
    pub(super) fn compact(columns: &[RowColumn], width: Width, shifted: bool) -> Vec<Self> {
        let mut stored = vec![Self::Ids(width), Self::Plain(RowColumn::SeqLengths)];
        let mut store = |column: Self| {
            if !stored.contains(&column) {
                stored.push(column);
            }
        };
        for &column in columns {
            match column {
                RowColumn::InputIds | RowColumn::PositionIds => {}
                RowColumn::Labels => store(Self::LabelSpans { shifted }),
                RowColumn::LossWeights => {
                    store(Self::LabelSpans { shifted });
                    store(Self::LabelWeights);
                }
                RowColumn::DocumentIds => store(Self::Plain(RowColumn::UnpaddedLengths)),
                RowColumn::SeqLengths
                | RowColumn::UnpaddedLengths
                | RowColumn::SourceFile
                | RowColumn::SourceRow
                | RowColumn::SourceTurn
                | RowColumn::SourceStart
                | RowColumn::AttnCost
                | RowColumn::Group
                | RowColumn::AttentionMask
                | RowColumn::TokenTypeIds
                | RowColumn::TargetSeqLengths
                | RowColumn::DecoderAttentionMask
                | RowColumn::PromptIds
                | RowColumn::ChosenIds
                | RowColumn::RejectedIds
                | RowColumn::CompletionIds
                | RowColumn::Label => store(Self::Plain(column)),
            }
        }
        stored
    }

    /// Whether a row has a value for each of its tokens.
    pub(super) fn is_per_token(self) -> bool {
        match self {
            Self::Plain(column) => column.is_per_token(),
            Self::Ids(_) => true,
            Self::LabelSpans { .. } | Self::LabelWeights => false,
        }
    }
}
