//! [`Objective`]: the properties of every training objective, and their types.

use std::fmt::Debug;
use std::num::NonZeroU32;

use super::classes::FoundClasses;
use crate::config::{ColumnUnit, NumberType, PackOptions, RowColumn};
use crate::document::{ColumnName, Document, INPUTS};

/// A piece, or what may become one, with its tokens: what an objective needs to size it and to make its columns.
#[derive(Clone, Copy, Debug)]
pub struct RowPart<'a> {
    /// The document, or the stretch of it that was read back.
    pub document: Document<'a>,
    /// The first token of the part in it.
    pub start: u32,
    /// The number of tokens.
    pub length: u32,
    /// The first token of the part in the whole document.
    pub first: u32,
}

impl<'a> RowPart<'a> {
    /// The ids of the part.
    pub fn ids(&self) -> &'a [u32] {
        &self.document.column(INPUTS)[self.start as usize..][..self.length as usize]
    }
}

/// The most tokens of a row.
#[derive(Clone, Copy, Debug)]
pub struct RowLimits {
    /// `max_length`.
    pub tokens: u32,
    /// `max_target_length`.
    pub targets: u32,
}

impl RowLimits {
    /// The limits in the packing options.
    pub fn of(packing: &PackOptions) -> Self {
        let targets = packing.max_target_length.map_or(u32::MAX, NonZeroU32::get);
        Self { tokens: packing.row_limit().get(), targets }
    }
}

/// The tokens of a part in its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartSize {
    /// The tokens that count against `max_length`.
    pub tokens: u32,
    /// The tokens that count against `max_target_length`.
    pub targets: u32,
}

/// A column that an objective makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectiveColumn {
    /// Its name.
    pub name: RowColumn,
    /// Its numbers.
    pub number: NumberType,
    /// The unit of its values.
    pub per: ColumnUnit,
    /// Its values for padding.
    pub fill: PaddingValues,
}

/// The label of a token that the loss leaves out: `torch.nn.CrossEntropyLoss` ignores it.
pub(crate) const UNTRAINED: i32 = -100;

/// The tokens of rows, and a label for each.
pub(super) fn inputs_and_labels() -> Vec<ObjectiveColumn> {
    let column = |name, fill| ObjectiveColumn {
        name,
        number: NumberType::Int32,
        per: ColumnUnit::Token,
        fill,
    };
    vec![
        column(RowColumn::InputIds, PaddingValues::Padding),
        column(RowColumn::Labels, PaddingValues::With(UNTRAINED)),
    ]
}

/// The values of a column for padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaddingValues {
    /// The padding token.
    Padding,
    /// This number.
    With(i32),
}

/// The values of a column for some parts, one after the other.
#[derive(Clone, Debug, Default)]
pub struct ColumnValues {
    /// The values. A floating-point number stands for its bits.
    pub numbers: Vec<i32>,
    /// The ends of the values of each part.
    pub ends: Vec<usize>,
}

impl ColumnValues {
    /// The values of a part.
    pub fn of(&self, part: usize) -> &[i32] {
        let start = part.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.numbers[start..self.ends[part]]
    }
}

/// A training objective.
pub trait Objective: Debug + Send + Sync {
    /// The columns of documents that rows are made of.
    fn reads(&self) -> &'static [ColumnName] {
        &[INPUTS]
    }

    /// The columns that it makes. None if rows hold the ids of documents and their trained runs as they are.
    fn columns(&self) -> Vec<ObjectiveColumn>;

    /// True if it makes random choices, so that each document needs a key.
    fn is_random(&self) -> bool {
        false
    }

    /// The tokens of a part in its row, of a document with this key; `None` if they are as many as in the document.
    fn size(&self, part: RowPart<'_>, key: u64) -> Option<PartSize> {
        let _ = (part, key);
        None
    }

    /// The tokens of the longest part from `start` on that a row can hold; 0 if it can hold none. `None` unless parts have
    /// another number of tokens in a row than in their document, or targets.
    fn longest(
        &self,
        document: Document<'_>,
        start: u32,
        key: u64,
        limits: RowLimits,
    ) -> Option<u32> {
        let _ = (document, start, key, limits);
        None
    }

    /// The classes that are found in documents. They must see all documents before a row is made.
    fn found_classes(&self) -> Option<&FoundClasses> {
        None
    }

    /// True if something can be learned from a part.
    fn learns(&self, part: RowPart<'_>) -> bool {
        part.length > 0
    }

    /// Appends the values of a part to each of its columns, in their order. Returns the number of labels.
    fn make(&self, part: RowPart<'_>, key: u64, columns: &mut [ColumnValues]) -> u64 {
        let _ = (part, key, columns);
        0
    }
}

/// The facts about a tokenizer that an objective needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct ObjectiveVocabulary<'t> {
    /// The tokenizer.
    pub tokenizer: Option<&'t fastpack_tokenize::Tokenizer>,
    /// Its named special tokens, such as (`mask_token`, `[MASK]`).
    pub named: &'t [(String, String)],
}
