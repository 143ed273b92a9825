//! [`ObjectiveOptions`]: the training objective that rows are made for, with its options.

use serde::{Deserialize, Serialize};

use super::columns::RowColumn;
use super::document_kind::DocumentKind;
use super::option_words::option_words;
use crate::error::{Error, Result};

option_words! {
    /// A training objective.
    #[non_exhaustive]
    pub enum ObjectiveName {
        /// Each token is predicted from those before it.
        Causal = "causal",
        /// Some tokens are masked, and predicted from those on both sides.
        Mlm = "mlm",
        /// Spans of tokens are replaced by sentinels, and predicted by a decoder.
        Span = "span",
        /// The middle of a document is predicted from what stands before and after it.
        Fim = "fim",
        /// An answer is preferred to another, or judged.
        Preference = "preference",
        /// A prompt is answered.
        Generation = "generation",
        /// The class of a text or of a pair of texts is predicted.
        Classification = "classification",
        /// The classes of a text or of a pair of texts are predicted.
        MultiLabel = "multi_label",
        /// A function of the caller gives documents their labels.
        Function = "custom",
    }
}

/// A probability, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Probability(f64);

/// No probability is NaN.
impl Eq for Probability {}

impl Probability {
    /// This probability; `None` if it is not between 0 and 1.
    pub fn new(share: f64) -> Option<Self> {
        (0.0..=1.0).contains(&share).then_some(Self(share))
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// A mean length in tokens, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MeanLength(f64);

/// No length is NaN.
impl Eq for MeanLength {}

impl MeanLength {
    /// This length; `None` if it is below 1 or above 10,000.
    pub fn new(length: f64) -> Option<Self> {
        (1.0..=1e4).contains(&length).then_some(Self(length))
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

option_words! {
    /// The rows of the preference objective, by the method that trains on them.
    pub enum PreferenceForm {
        /// A prompt with a chosen and a rejected answer, as `DPOTrainer` of TRL reads them.
        Dpo = "dpo",
        /// A chosen and a rejected text, each with the prompt, as `RewardTrainer` of TRL reads them.
        Reward = "reward",
        /// A prompt with an answer and whether it is a good one, as `KTOTrainer` of TRL reads them.
        Kto = "kto",
    }
}

/// A training objective with its options.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ObjectiveOptions {
    /// Each token is predicted from those before it.
    #[default]
    Causal,
    /// Some tokens are masked, and predicted from those on both sides.
    Mlm(MlmOptions),
    /// Spans of tokens are replaced by sentinels, and predicted by a decoder.
    Span(SpanOptions),
    /// The middle of a document is predicted from what stands before and after it.
    Fim(FimOptions),
    /// An answer is preferred to another, or judged.
    Preference {
        /// The rows.
        form: PreferenceForm,
    },
    /// A prompt is answered.
    Generation,
    /// The class of a text or of a pair of texts is predicted.
    Classification,
    /// The classes of a text or of a pair of texts are predicted.
    MultiLabel,
    /// A function of the caller gives documents their labels.
    #[serde(rename = "custom")]
    Function,
}

/// The options of masked language modeling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MlmOptions {
    /// The probability of a token to be chosen.
    pub probability: Probability,
    /// The probability of a chosen token to become the mask token.
    #[serde(rename = "mask_replace_prob")]
    pub mask_replace: Probability,
    /// The probability of a chosen token to become a random token.
    #[serde(rename = "random_replace_prob")]
    pub random_replace: Probability,
    /// True if all tokens of a word are chosen together.
    pub whole_words: bool,
}

/// The options of span corruption.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpanOptions {
    /// The ways to draw spans. Each piece takes one of them, all with the same probability.
    pub mixture: Vec<Noise>,
}

/// A way to draw the spans of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Noise {
    /// A share of the tokens in spans of a mean length, as T5 draws them.
    Density {
        /// The share.
        #[serde(rename = "noise_density")]
        density: Probability,
        /// The mean length of a span.
        #[serde(rename = "mean_noise_span_length")]
        length: MeanLength,
    },
    /// Gaps and spans in turn, the length of each drawn around its mean.
    Gaps {
        /// The mean length of a gap.
        #[serde(rename = "mean_gap_length")]
        gap: MeanLength,
        /// The mean length of a span.
        #[serde(rename = "mean_noise_span_length")]
        length: MeanLength,
    },
}

/// The options of filling in the middle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FimOptions {
    /// The probability of a document to be cut in three.
    pub rate: Probability,
    /// The probability of such a document to have its suffix before its prefix.
    pub spm_rate: Probability,
    /// The tokens before prefix, suffix and middle; by default those of the tokenizer.
    pub tokens: Option<[String; 3]>,
}

impl PreferenceForm {
    /// The columns of the rows.
    fn columns(self) -> &'static [RowColumn] {
        match self {
            Self::Dpo => &[RowColumn::PromptIds, RowColumn::ChosenIds, RowColumn::RejectedIds],
            Self::Reward => &[RowColumn::ChosenIds, RowColumn::RejectedIds],
            Self::Kto => &[RowColumn::PromptIds, RowColumn::CompletionIds, RowColumn::Label],
        }
    }
}

impl ObjectiveOptions {
    /// The name of the objective.
    pub fn name(&self) -> ObjectiveName {
        match self {
            Self::Causal => ObjectiveName::Causal,
            Self::Mlm(_) => ObjectiveName::Mlm,
            Self::Span(_) => ObjectiveName::Span,
            Self::Fim(_) => ObjectiveName::Fim,
            Self::Preference { .. } => ObjectiveName::Preference,
            Self::Generation => ObjectiveName::Generation,
            Self::Classification => ObjectiveName::Classification,
            Self::MultiLabel => ObjectiveName::MultiLabel,
            Self::Function => ObjectiveName::Function,
        }
    }

    /// True if this is the causal objective.
    pub fn is_causal(&self) -> bool {
        *self == Self::Causal
    }

    /// True if all tokens of every document are learned from, so that no part of it is chosen.
    pub fn takes_all(&self) -> bool {
        matches!(self, Self::Mlm(_) | Self::Span(_) | Self::Fim(_))
    }

    /// True if a piece has another number of tokens in its row than in its document.
    pub(super) fn resizes(&self) -> bool {
        matches!(self, Self::Span(_) | Self::Fim(_))
    }

    /// The columns of rows whose columns are not chosen; `padded` if rows may be padded.
    pub fn columns(&self, padded: bool) -> Vec<RowColumn> {
        let mut columns = vec![RowColumn::InputIds, RowColumn::Labels];
        match self {
            Self::Causal | Self::Fim(_) => {
                columns.extend([RowColumn::PositionIds, RowColumn::SeqLengths]);
            }
            Self::Mlm(_) | Self::Function => {
                columns.extend([RowColumn::PositionIds, RowColumn::SeqLengths]);
                columns.extend(padded.then_some(RowColumn::AttentionMask));
            }
            Self::Span(_) => {
                columns.extend([RowColumn::SeqLengths, RowColumn::TargetSeqLengths]);
                let masks = [RowColumn::AttentionMask, RowColumn::DecoderAttentionMask];
                columns.extend(masks.into_iter().filter(|_| padded));
            }
            Self::Preference { form } => return form.columns().to_vec(),
            Self::Generation => {
                columns.truncate(1);
                columns.extend(padded.then_some(RowColumn::AttentionMask));
                columns.extend([RowColumn::SourceFile, RowColumn::SourceRow]);
            }
            Self::Classification | Self::MultiLabel => {
                columns.insert(1, RowColumn::TokenTypeIds);
                columns.extend(padded.then_some(RowColumn::AttentionMask));
            }
        }
        columns
    }

    /// Checks rules that concern several fields.
    pub fn validate(&self) -> Result<()> {
        match self {
            Self::Mlm(mlm) if mlm.mask_replace.get() + mlm.random_replace.get() > 1.0 => {
                let reason = "and `objective.mask_replace_prob` must be at most 1 together";
                Err(Error::option("objective.random_replace_prob", reason))
            }
            _ => Ok(()),
        }
    }

    /// The kind of documents that rows are made of.
    pub fn documents(&self) -> DocumentKind {
        match self {
            Self::Causal | Self::Mlm(_) | Self::Span(_) | Self::Fim(_) => DocumentKind::Texts,
            Self::Preference { form: PreferenceForm::Kto } => DocumentKind::Judged,
            Self::Preference { .. } => DocumentKind::Pairs,
            Self::Generation => DocumentKind::Prompts,
            Self::Classification => DocumentKind::Labelled,
            Self::MultiLabel => DocumentKind::MultiLabelled,
            Self::Function => DocumentKind::Converted,
        }
    }

    /// True if a row holds one document.
    pub fn has_row_each(&self) -> bool {
        !self.documents().is_of_whole_texts()
    }

    /// True if training ignores a row of padding: its labels are those that a loss passes over.
    pub(super) fn ignores_padding_rows(&self) -> bool {
        !self.has_row_each() || self.documents() == DocumentKind::Labelled
    }

    /// True if rows can have a column.
    pub(super) fn makes(&self, column: RowColumn) -> bool {
        let of_the_source = [
            RowColumn::SourceFile,
            RowColumn::SourceRow,
            RowColumn::SourceTurn,
            RowColumn::SourceStart,
        ]
        .contains(&column);
        match self {
            Self::Causal | Self::Mlm(_) | Self::Span(_) | Self::Fim(_) | Self::Function => {
                let of_answers = [
                    RowColumn::PromptIds,
                    RowColumn::ChosenIds,
                    RowColumn::RejectedIds,
                    RowColumn::CompletionIds,
                    RowColumn::Label,
                ];
                !of_answers.contains(&column)
            }
            Self::Preference { form } => of_the_source || form.columns().contains(&column),
            Self::Generation => {
                let others = [
                    RowColumn::InputIds,
                    RowColumn::AttentionMask,
                    RowColumn::PositionIds,
                    RowColumn::SeqLengths,
                    RowColumn::UnpaddedLengths,
                ];
                of_the_source || others.contains(&column)
            }
            Self::Classification | Self::MultiLabel => [
                RowColumn::InputIds,
                RowColumn::TokenTypeIds,
                RowColumn::AttentionMask,
                RowColumn::Labels,
                RowColumn::PositionIds,
                RowColumn::SeqLengths,
                RowColumn::SourceFile,
                RowColumn::SourceRow,
                RowColumn::AttnCost,
                RowColumn::Group,
            ]
            .contains(&column),
        }
    }
}
