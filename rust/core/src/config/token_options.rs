//! [`TokenOptions`]: the options that decide the tokens.

use chrono::NaiveDateTime;
use serde::{Deserialize, Serialize};

use super::{Classes, DocumentKind, ImageOptions, TrainOn, TrainedTokens, option_words};
use crate::error::{Error, Result};
use crate::util::wording::{message, set};

/// The documents that end with the tokenizer's end-of-text token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Eos {
    /// A text ends with one. For a conversation, the template decides.
    Auto,
    /// Every document ends with one.
    Always,
    /// None is added.
    Never,
}

/// The documents that begin with the tokenizer's beginning-of-text token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bos {
    /// The tokenizer decides for a text, and the template for a conversation.
    Auto,
    /// Every document begins with one.
    Always,
    /// None is added, not by the tokenizer either.
    Never,
}

option_words! {
    /// The documents that a conversation becomes.
    pub enum Turns {
        /// The fewest in which each trained turn stands behind exactly what the model sees there: one, unless the
        /// chat template writes earlier messages otherwise once others follow.
        Auto = "auto",
        /// One for each trained turn: the conversation up to it.
        Each = "each",
        /// One; its last turn is trained.
        Last = "last",
        /// One, with every trained turn as it is written there.
        Whole = "whole",
    }
}

impl Turns {
    /// The weight of a turn in the loss: that of its message, if it has one, or else 1 for a turn that is chosen.
    pub(crate) fn weight(self, own: Option<f32>, is_last: bool) -> f32 {
        let is_chosen = self != Self::Last || is_last;
        own.unwrap_or(if is_chosen { 1.0 } else { 0.0 })
    }

    /// True if messages of these weights are trained; `last` is the index of the last message of the assistant.
    pub(crate) fn trains(
        self,
        weights: Option<&[Option<f32>]>,
        last: Option<usize>,
    ) -> impl Fn(usize) -> bool {
        move |at| {
            let own = weights.and_then(|weights| weights[at]);
            self.weight(own, Some(at) == last) > 0.0
        }
    }
}

option_words! {
    /// The end-of-turn tokens that are trained.
    pub enum TrainOnEos {
        /// The end of every trained turn.
        Turn = "turn",
        /// The end of the last trained turn.
        Last = "last",
        /// None of them.
        None = "none",
    }
}

option_words! {
    /// The treatment of control tokens that stand in texts of users and tools.
    #[derive(Default)]
    pub enum SpecialInText {
        /// They become these tokens, as `transformers` encodes them.
        #[default]
        Encode = "encode",
        /// Their characters are encoded as other text.
        Split = "split",
        /// The record is refused.
        Error = "error",
    }
}

impl SpecialInText {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks for it")]
    fn is_encode(&self) -> bool {
        *self == Self::Encode
    }
}

option_words! {
    /// The treatment of a record that cannot be read.
    pub enum OnBadRecord {
        /// The run fails, naming file, line and reason.
        Error = "error",
        /// It is left out and counted by its reason.
        Skip = "skip",
    }
}

/// The options that decide the tokens, and which of them are trained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenOptions {
    /// The tokens that carry a label.
    pub train_on: TrainedTokens,
    /// The documents that a conversation becomes.
    pub turns: Turns,
    /// The end-of-turn tokens that are trained; by default those that the template marks.
    #[serde(rename = "special_tokens.train_on_eos")]
    pub train_on_eos: Option<TrainOnEos>,
    /// The addition of an end-of-text token.
    #[serde(rename = "special_tokens.eos")]
    pub eos: Eos,
    /// The addition of a beginning-of-text token.
    #[serde(rename = "special_tokens.bos")]
    pub bos: Bos,
    /// The treatment of control tokens in texts of users and tools.
    #[serde(
        rename = "special_tokens.in_text",
        default,
        skip_serializing_if = "SpecialInText::is_encode"
    )]
    pub special_in_text: SpecialInText,
    /// True if arguments of calls in JSON text are decoded, where the chat template encodes them a second time.
    #[serde(
        rename = "chat_template.decode_arguments",
        default,
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub decode_arguments: bool,
    /// The treatment of records that cannot be read.
    pub on_bad_record: OnBadRecord,
    /// The local time that templates see, without a zone; by default the start of the job.
    #[serde(rename = "chat_template.now")]
    pub now: Option<NaiveDateTime>,
    /// The kind of documents that are made.
    #[serde(default, skip_serializing_if = "DocumentKind::is_texts")]
    pub documents: DocumentKind,
    /// The classes of labels.
    #[serde(rename = "objective.classes", default, skip_serializing_if = "Classes::is_unknown")]
    pub classes: Classes,
    /// The pictures of conversations; without it, a record with one is bad.
    #[serde(rename = "reading.images", default, skip_serializing_if = "Option::is_none")]
    pub images: Option<ImageOptions>,
}

impl TokenOptions {
    pub(super) fn validate(&self) -> Result<()> {
        if let Some(parts) = self.train_on.parts() {
            parts.validate()?;
            if parts.trains_others() && self.turns == Turns::Last {
                let reason = "trains the last turn of the assistant alone; leave it out, or the other roles of `train_on`";
                return Err(Error::option("turns", reason));
            }
        }
        if self.train_on.name() == TrainOn::All && self.train_on_eos.is_some() {
            let reason = message![
                "is given, but ",
                set("train_on", "all"),
                " trains every token; leave one of them out",
            ];
            return Err(Error::option("special_tokens.train_on_eos", reason));
        }
        self.classes.validate()
    }
}
