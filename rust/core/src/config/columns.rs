//! [`RowColumn`]: the columns of rows, and the content of each.

use super::option_words::option_words;

/// The names of the runs of labels in the compact layout: unshifted and shifted ones. Records that have one of these
/// fields are packed rows.
pub const LABEL_SPANS: [&str; 2] = ["label_spans", "shifted_label_spans"];

option_words! {
    /// A column of the packed rows.
    #[non_exhaustive]
    pub enum RowColumn {
        /// The tokens.
        InputIds = "input_ids",
        /// The tokens where trained, -100 elsewhere; not shifted. The class of a text, or a truth for each class.
        Labels = "labels",
        /// Positions that restart at 0 in each document.
        PositionIds = "position_ids",
        /// The length of each document in the row.
        SeqLengths = "seq_lengths",
        /// The factor of each token's loss; 0 where not trained.
        LossWeights = "loss_weights",
        /// The number of each token's document in the row, from 1; 0 for padding.
        DocumentIds = "document_ids",
        /// The length without padding of each entry of `seq_lengths`.
        UnpaddedLengths = "unpadded_lengths",
        /// The number of each document's file among the inputs, from 0.
        SourceFile = "source_file",
        /// The line or record of each document in its file, from 1.
        SourceRow = "source_row",
        /// The number of the last turn that each document trains, among the messages of the assistant of its record, from 1;
        /// 0 for a document of no conversation, or without a turn.
        SourceTurn = "source_turn",
        /// The place in its document of the first token of each entry of `seq_lengths`, from 0.
        SourceStart = "source_start",
        /// The cost of attention: the sum of the squared lengths of the documents.
        AttnCost = "attn_cost",
        /// The number of the training step in which all ranks together use the row.
        Group = "group",
        /// 1 for each token, 0 for padding.
        AttentionMask = "attention_mask",
        /// The number of the text of a pair that each token is of: 0 where there are no pairs.
        TokenTypeIds = "token_type_ids",
        /// The kind of each token in a model of pictures: 1 for one of a picture.
        MmTokenTypeIds = "mm_token_type_ids",
        /// The pictures of the row, in the order of their tokens.
        Images = "images",
        /// The length of each document in the row's targets.
        TargetSeqLengths = "target_seq_lengths",
        /// 1 for each token of the targets, 0 for padding.
        DecoderAttentionMask = "decoder_attention_mask",
        /// The tokens of a prompt.
        PromptIds = "prompt_ids",
        /// The tokens of the chosen answer.
        ChosenIds = "chosen_ids",
        /// The tokens of the rejected answer.
        RejectedIds = "rejected_ids",
        /// The tokens of an answer.
        CompletionIds = "completion_ids",
        /// The judgement of an answer.
        Label = "label",
    }
}

/// The numbers of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberType {
    /// 32-bit integers.
    Int32,
    /// 64-bit integers.
    Int64,
    /// 32-bit floating-point numbers.
    Float32,
    /// True or false.
    Bool,
    /// Pictures: a struct each, with the bytes if they are embedded.
    Picture {
        /// True if rows hold the bytes.
        embedded: bool,
    },
}

/// Bytes of a value that a row has for each of its tokens.
pub(crate) const BYTES_OF_VALUE: u64 = 4;

/// The unit that a column has a value for, and the limit that its values count against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnUnit {
    /// A list with a value for each token of the row: they count against `max_length`.
    Token,
    /// A list with a value for each token of the row's targets: they count against `max_target_length`.
    Target,
    /// A list with an entry for each document of the row.
    Document,
    /// A list of a length of its own.
    List,
    /// One number.
    Row,
}

impl RowColumn {
    /// The numbers of the column and their unit, unless the objective says otherwise.
    pub fn usual(self) -> (NumberType, ColumnUnit) {
        match self {
            Self::InputIds
            | Self::Labels
            | Self::PositionIds
            | Self::DocumentIds
            | Self::AttentionMask
            | Self::MmTokenTypeIds
            | Self::TokenTypeIds => (NumberType::Int32, ColumnUnit::Token),
            Self::Images => (NumberType::Picture { embedded: false }, ColumnUnit::List),
            Self::DecoderAttentionMask => (NumberType::Int32, ColumnUnit::Target),
            Self::PromptIds | Self::ChosenIds | Self::RejectedIds | Self::CompletionIds => {
                (NumberType::Int32, ColumnUnit::List)
            }
            Self::Label => (NumberType::Bool, ColumnUnit::Row),
            Self::LossWeights => (NumberType::Float32, ColumnUnit::Token),
            Self::SeqLengths
            | Self::TargetSeqLengths
            | Self::UnpaddedLengths
            | Self::SourceFile
            | Self::SourceTurn
            | Self::SourceStart => (NumberType::Int32, ColumnUnit::Document),
            Self::SourceRow => (NumberType::Int64, ColumnUnit::Document),
            Self::AttnCost => (NumberType::Int64, ColumnUnit::Row),
            Self::Group => (NumberType::Int32, ColumnUnit::Row),
        }
    }

    /// True if a row has a value for each of its tokens.
    pub(crate) fn is_per_token(self) -> bool {
        matches!(self.usual().1, ColumnUnit::Token | ColumnUnit::Target)
    }
}
