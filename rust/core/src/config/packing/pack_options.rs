//! The options for packing documents into rows, and for padding rows.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::alignment::Alignment;
use super::overlong::Overlong;
use crate::config::option_words::option_words;
use crate::error::{Error, Result};
use crate::util::wording::{message, set};

option_words! {
    /// The strategy that packs documents into rows.
    #[non_exhaustive]
    pub enum Strategy {
        /// The longest first, then others at random, then the pieces that fill the row to the last token.
        Mix = "mix",
        /// Longest first, each into the row with the least sufficient room. The groups equal those of TRL.
        BestFit = "best_fit",
        /// Longest first from a max-heap, into the one open row.
        Heap = "heap",
        /// In input order, into the one open row.
        Sequential = "sequential",
        /// End to end in input order, cut at the end of each row.
        Concat = "concat",
        /// A row per document, in input order.
        None = "none",
    }
}

impl Strategy {
    /// True if a row begins only once the lengths of all documents are known. The other strategies make rows in input
    /// order, one after the other.
    pub fn needs_all_lengths(self) -> bool {
        matches!(self, Self::Mix | Self::BestFit | Self::Heap)
    }

    /// True if documents are cut where a row ends, so that none is too long.
    pub fn cuts_at_row_end(self) -> bool {
        self == Self::Concat
    }

    /// True if each document has a row of its own.
    pub fn one_document_a_row(self) -> bool {
        self == Self::None
    }

    /// True if documents may be put into several open rows as they come, where not all lengths are known.
    pub fn fills_open_rows(self) -> bool {
        self == Self::BestFit
    }

    /// The default order of the rows.
    fn order(self) -> RowOrder {
        if self.needs_all_lengths() { RowOrder::Shuffle } else { RowOrder::Input }
    }
}

option_words! {
    /// The order of the rows.
    #[non_exhaustive]
    pub enum RowOrder {
        /// At random, as the seed decides.
        Shuffle = "shuffle",
        /// By the first document in each.
        Input = "input",
        /// In groups of rows of similar attention cost, one row for each rank. The seed decides the order of
        /// the groups.
        Balanced = "balanced",
    }
}

option_words! {
    /// The treatment of rows that are no multiple of the ranks that share them.
    pub enum OnRemainder {
        /// Rows of padding alone are added.
        Pad = "pad",
        /// The last rows are dropped, and counted.
        Drop = "drop",
        /// Rows are repeated, and counted.
        Repeat = "repeat",
    }
}

option_words! {
    /// An end of a row, or of a document.
    pub enum Side {
        /// The beginning.
        Left = "left",
        /// The end.
        Right = "right",
    }
}

/// The length that rows are padded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PadTo {
    /// Rows are not padded.
    Nothing,
    /// All rows are padded to `max_length`.
    MaxLength,
    /// The length of each row is padded to a multiple of this.
    Multiple(NonZeroU32),
}

impl PadTo {
    /// Checks that no row is padded beyond `max_length`, and that padding is aligned as documents are.
    pub(in crate::config) fn validate(self, packing: &PackOptions) -> Result<()> {
        match self {
            Self::MaxLength if packing.max_length.is_none() => {
                let reason = "is \"max_length\", which is not given; fill rows up to a multiple, or give both";
                Err(Error::option("padding.to", reason))
            }
            Self::Multiple(multiple)
                if packing
                    .align_documents_to
                    .is_some_and(|it| !multiple.get().is_multiple_of(it.get())) =>
            {
                let reason =
                    format!("is {multiple}, but must be a multiple of `strategy.align_to` too");
                Err(Error::option("padding.to", reason))
            }
            Self::Multiple(multiple)
                if packing
                    .max_length
                    .is_some_and(|it| !it.get().is_multiple_of(multiple.get())) =>
            {
                let reason = message![
                    format!("is {multiple}, but must divide "),
                    set("max_length", packing.row_limit().get()),
                    ", or rows would outgrow it",
                ];
                Err(Error::option("padding.to", reason))
            }
            _ => Ok(()),
        }
    }
}

/// Some pictures and their tokens, which count against the limits of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PictureSizes {
    /// The pictures.
    pub pictures: u32,
    /// Their tokens.
    pub tokens: u32,
}

/// The options for packing documents into rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackOptions {
    /// The most tokens of a row; `None` where each document has a row, however long.
    pub max_length: Option<NonZeroU32>,
    /// The most tokens of a row's targets, where rows have targets of their own.
    #[serde(
        rename = "objective.max_target_length",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub max_target_length: Option<NonZeroU32>,
    /// The most pictures of a row.
    #[serde(
        rename = "reading.images.max_images_per_pack",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub max_images_per_pack: Option<NonZeroU32>,
    /// The most tokens of pictures in a row.
    #[serde(
        rename = "reading.images.max_image_tokens_per_pack",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub max_image_tokens_per_pack: Option<NonZeroU32>,
    /// The strategy that packs documents into rows.
    pub strategy: Strategy,
    /// The treatment of documents longer than a row; by default a text is split and anything else dropped.
    pub overlong: Option<Overlong>,
    /// The side at which a document is truncated.
    #[serde(rename = "overlong.side")]
    pub truncation_side: Side,
    /// True if the last row of `concat` is dropped, and counted, if it is not full.
    #[serde(rename = "strategy.drop_last")]
    pub drop_last: bool,
    /// True if documents are shuffled by the seed before packing, for strategies that keep input order.
    #[serde(rename = "strategy.shuffle")]
    pub shuffle: bool,
    /// The most documents of a row. Each piece of a document counts.
    #[serde(rename = "strategy.max_documents")]
    pub max_documents_per_pack: Option<NonZeroU32>,
    /// The room of each document in a row is a multiple of this.
    #[serde(rename = "strategy.align_to")]
    pub align_documents_to: Option<NonZeroU32>,
    /// The order of the rows; by default that of the strategy.
    pub order: Option<RowOrder>,
    /// The ranks that share the rows of [`RowOrder::Balanced`].
    #[serde(rename = "order.ranks")]
    pub balance_ranks: Option<NonZeroU32>,
    /// The treatment of rows that the ranks cannot share equally.
    #[serde(rename = "order.on_remainder")]
    pub on_remainder: OnRemainder,
    /// The random seed. The same seed gives the same rows.
    pub seed: u64,
}

impl PackOptions {
    /// The most tokens of a row without another limit: the largest offset of an Arrow list.
    const LONGEST: NonZeroU32 = NonZeroU32::new(i32::MAX.cast_unsigned()).expect("not zero");

    /// The most tokens of a row, with or without `max_length`.
    pub fn row_limit(&self) -> NonZeroU32 {
        self.max_length.unwrap_or(Self::LONGEST)
    }

    /// Checks the rules between options.
    pub fn validate(&self) -> Result<()> {
        if self.row_limit() > Self::LONGEST {
            let reason = "must be below 2147483648, the reach of an Arrow list";
            return Err(Error::option("max_length", reason));
        }
        if self.max_length.is_none() && !self.strategy.one_document_a_row() {
            let reason = message![
                "must be given with ",
                set("strategy", self.strategy.name()),
                ": the tokens that a row holds; only \"none\" has rows of any length",
            ];
            return Err(Error::option("max_length", reason));
        }
        if let Some(align) = self.align_documents_to
            && let Some(max_length) = self.max_length
            && !max_length.get().is_multiple_of(align.get())
        {
            let reason = message![
                format!("is {align}, but must divide "),
                set("max_length", max_length.get()),
                ", or a document could outgrow its row",
            ];
            return Err(Error::option("strategy.align_to", reason));
        }
        match (self.order(), self.balance_ranks) {
            (RowOrder::Balanced, None) => {
                let reason = message![
                    "must be given with ",
                    set("order", "balanced"),
                    ": the ranks that share the rows",
                ];
                return Err(Error::option("order.ranks", reason));
            }
            (RowOrder::Shuffle | RowOrder::Input, Some(_)) => {
                let reason = message!["is given, but only ", set("order", "balanced"), " heeds it"];
                return Err(Error::option("order.ranks", reason));
            }
            _ => {}
        }
        let cuts = self.strategy.cuts_at_row_end();
        if cuts && self.overlong.is_some() {
            let reason = message![
                "is given, but ",
                set("strategy", self.strategy.name()),
                " cuts every document where a row ends; leave it out",
            ];
            return Err(Error::option("overlong", reason));
        }
        if !cuts && self.drop_last {
            let reason = message![
                "is given, but ",
                set("strategy", self.strategy.name()),
                " has no last row that is cut short; only \"concat\" does",
            ];
            return Err(Error::option("strategy.drop_last", reason));
        }
        if self.shuffle && self.strategy.order() != RowOrder::Input {
            let reason = message![
                "is given, but ",
                set("strategy", self.strategy.name()),
                " draws an order of its own; \"sequential\", \"concat\" and \"none\" heed it",
            ];
            return Err(Error::option("strategy", reason));
        }
        if self.truncation_side == Side::Left && self.overlong != Some(Overlong::Truncate) {
            let reason =
                message!["is \"left\", which only ", set("overlong", "truncate"), " heeds"];
            return Err(Error::option("overlong.side", reason));
        }
        Ok(())
    }

    /// The order of the rows.
    pub fn order(&self) -> RowOrder {
        self.order.unwrap_or_else(|| self.strategy.order())
    }

    /// The room of a piece of `length` tokens in a row, in tokens.
    pub fn room(&self, length: u32) -> u32 {
        Alignment::to(self.align_documents_to).room(length)
    }

    /// The share of a row that a piece of `length` tokens takes, with so many `targets` and pictures, in tokens.
    ///
    /// It is the largest of all shares, so rows that are packed by it exceed no limit.
    pub fn share(&self, length: u32, targets: u32, pictures: PictureSizes) -> u32 {
        let limit = u64::from(self.row_limit().get());
        let part = |amount: u32, most: Option<NonZeroU32>| {
            let Some(most) = most.filter(|_| amount > 0) else { return 0 };
            let scaled = u64::from(amount) * limit;
            u32::try_from(scaled.div_ceil(u64::from(most.get()))).unwrap_or(u32::MAX)
        };
        let parts = [
            self.room(length),
            part(targets, self.max_target_length),
            part(pictures.pictures, self.max_images_per_pack),
            part(pictures.tokens, self.max_image_tokens_per_pack),
        ];
        parts.into_iter().fold(0, u32::max)
    }

    /// True if rows have limits of pictures.
    pub fn limits_pictures(&self) -> bool {
        self.max_images_per_pack.is_some() || self.max_image_tokens_per_pack.is_some()
    }

    /// True if pictures of these sizes fit into a row.
    pub fn holds_pictures(&self, sizes: PictureSizes) -> bool {
        let fits = |amount: u32, most: Option<NonZeroU32>| most.is_none_or(|it| amount <= it.get());
        fits(sizes.pictures, self.max_images_per_pack)
            && fits(sizes.tokens, self.max_image_tokens_per_pack)
    }

    /// The most documents of a row that its strategy makes.
    pub fn most_documents(&self) -> u32 {
        if self.strategy.one_document_a_row() { 1 } else { self.documents_limit() }
    }

    /// The most documents that are asked for in a row.
    pub fn documents_limit(&self) -> u32 {
        self.max_documents_per_pack.map_or(u32::MAX, NonZeroU32::get)
    }
}
