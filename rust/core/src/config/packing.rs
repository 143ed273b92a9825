//! The options that decide how documents become rows, and what fills these up.

use std::num::NonZeroU32;

use serde::Serialize;

use crate::error::{Error, Result};

/// How documents are put together into rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Strategy {
    /// The longest first, then others at random, then what fills the row to the last token.
    Mix,
    /// Longest first, each into the row that it fills best; TRL's very groups.
    BestFit,
    /// Longest first from a max-heap, into the one open row.
    Heap,
    /// In input order, into the one open row.
    Sequential,
    /// End to end in input order, cut at the end of each row.
    Concat,
    /// A row per document, in input order.
    None,
}

impl Strategy {
    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mix => "mix",
            Self::BestFit => "best_fit",
            Self::Heap => "heap",
            Self::Sequential => "sequential",
            Self::Concat => "concat",
            Self::None => "none",
        }
    }

    /// The order of the rows where none is asked for.
    fn order(self) -> Order {
        match self {
            Self::Mix | Self::BestFit | Self::Heap => Order::Shuffle,
            Self::Sequential | Self::Concat | Self::None => Order::Input,
        }
    }
}

/// What happens to a document longer than a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Overlong {
    /// It is dropped, and counted.
    Drop,
    /// As much as a row holds is kept, the rest counted.
    Truncate,
    /// It is cut into pieces that each fill a row, and one that may not.
    Split,
    /// The run fails, naming it.
    Error,
}

/// Which end of a truncated document is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// Its first tokens.
    Start,
    /// Its last tokens.
    End,
}

/// What happens to the last row of [`Strategy::Concat`] if it is not full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tail {
    /// It is a row like the others.
    Keep,
    /// It is dropped, and counted.
    Drop,
}

/// The order of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Order {
    /// At random, as the seed decides.
    Shuffle,
    /// By the first document in each.
    Input,
}

/// What a row is filled up to, on its right side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PadTo {
    /// Rows stay as long as they are.
    Nothing,
    /// All rows are `max_length` long.
    MaxLength,
    /// The length of each row is a multiple of this.
    Multiple(NonZeroU32),
}

impl PadTo {
    /// Checks that no row is made longer than `max_length`.
    pub(super) fn validate(self, max_length: NonZeroU32) -> Result<()> {
        match self {
            Self::Multiple(multiple) if !max_length.get().is_multiple_of(multiple.get()) => {
                let reason = format!(
                    "is {multiple}, but must divide max_length={max_length}, or rows would outgrow it"
                );
                Err(Error::option("pad_to", reason))
            }
            _ => Ok(()),
        }
    }
}

/// How documents become rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PackOptions {
    /// Tokens a row holds at most.
    pub max_length: NonZeroU32,
    /// How documents are put together.
    pub strategy: Strategy,
    /// What happens to documents longer than a row; if nothing is said, a text is split and anything else dropped.
    pub overlong: Option<Overlong>,
    /// Which end of a truncated document is kept.
    pub keep: Keep,
    /// What happens to the last row of `concat`.
    pub tail: Tail,
    /// Documents a row holds at most, each piece of one counted.
    pub max_documents_per_pack: Option<NonZeroU32>,
    /// The order of the rows, where the strategy's own is not wanted.
    pub order: Option<Order>,
    /// What decides everything that is left to chance.
    pub seed: u64,
}

impl PackOptions {
    /// Checks the rules that one option alone cannot break.
    pub fn validate(&self) -> Result<()> {
        if i32::try_from(self.max_length.get()).is_err() {
            let reason = "must be below 2147483648, the reach of an Arrow list";
            return Err(Error::option("max_length", reason));
        }
        let concat = self.strategy == Strategy::Concat;
        if concat && self.overlong.is_some() {
            let reason = "is given, but strategy=\"concat\" cuts every document where a row ends; leave it out";
            return Err(Error::option("overlong", reason));
        }
        if !concat && self.tail == Tail::Drop {
            let reason = format!(
                "is \"drop\", but strategy=\"{}\" has no tail; only \"concat\" does",
                self.strategy.name()
            );
            return Err(Error::option("tail", reason));
        }
        if self.keep == Keep::End && self.overlong != Some(Overlong::Truncate) {
            let reason = "is \"end\", which only overlong=\"truncate\" can heed";
            return Err(Error::option("keep", reason));
        }
        Ok(())
    }

    /// The order of the rows.
    pub fn order(&self) -> Order {
        self.order.unwrap_or_else(|| self.strategy.order())
    }

    /// Documents a row holds at most.
    pub fn most_documents(&self) -> u32 {
        self.max_documents_per_pack.map_or(u32::MAX, NonZeroU32::get)
    }
}
