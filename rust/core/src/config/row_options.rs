//! [`RowOptions`]: the options that decide the rows.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::{
    BYTES_OF_VALUE, ObjectiveOptions, OnRemainder, Overlong, PackOptions, PadTo, RowColumn,
    RowOrder, Shares, Side,
};
use crate::error::{Error, Result};
use crate::util::free_memory;
use crate::util::wording::{message, set};

/// The options that decide the rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowOptions {
    /// The packing of documents into rows.
    pub packing: PackOptions,
    /// The length that rows are padded to.
    #[serde(rename = "padding")]
    pub pad_to: PadTo,
    /// The side of a row that is padded.
    #[serde(rename = "padding.side")]
    pub padding_side: Side,
    /// The id of padding; by default the tokenizer's own.
    #[serde(rename = "padding.token_id")]
    pub pad_token_id: Option<u32>,
    /// True if labels are shifted: each stands one place before its token, where it is predicted.
    #[serde(rename = "objective.shift_labels")]
    pub shift_labels: bool,
    /// The columns of the rows, in their order.
    pub columns: Vec<RowColumn>,
    /// The training objective.
    pub objective: ObjectiveOptions,
    /// The number of copies of the documents, each drawn anew by the objective.
    #[serde(rename = "objective.copies", default = "one", skip_serializing_if = "is_one")]
    pub copies: NonZeroU32,
    /// The shares of sources, where not all of their documents are taken once.
    #[serde(rename = "weights", default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<Shares>,
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_one(number: &NonZeroU32) -> bool {
    *number == NonZeroU32::MIN
}

impl RowOptions {
    /// True if a conversation that is too long is cut after a turn. The ends of its turns are kept for that.
    pub(crate) fn trims(&self) -> bool {
        self.packing.overlong == Some(Overlong::Trim)
    }

    pub(super) fn validate(&self) -> Result<()> {
        self.packing.validate()?;
        self.validate_rows_of_objective()?;
        self.pad_to.validate(&self.packing)?;
        if self.pad_token_id.is_some_and(|id| i32::try_from(id).is_err()) {
            return Err(Error::option("padding.token_id", "must be a token id, below 2147483648"));
        }
        if self.columns.is_empty() {
            return Err(Error::option("columns", "must name at least one column"));
        }
        for (at, column) in self.columns.iter().enumerate() {
            if self.columns[..at].contains(column) {
                return Err(Error::option("columns", "names a column twice"));
            }
        }
        if self.columns.contains(&RowColumn::Group) && self.packing.order() != RowOrder::Balanced {
            let reason = message!["names `group`, which only ", set("order", "balanced"), " makes"];
            return Err(Error::option("columns", reason));
        }
        self.validate_objective()?;
        self.validate_shares()?;
        self.check_row_memory()?;
        if self.padding_side == Side::Left && self.pad_to == PadTo::Nothing {
            let reason = message![
                "is \"left\", but without `padding.to` no row is filled up; give ",
                set("padding.to", "max_length"),
                set("padding.side", "left"),
                ", or leave it out",
            ];
            return Err(Error::option("padding.side", reason));
        }
        Ok(())
    }

    /// Checks that rows of the objective have the columns, and that its documents can be packed so.
    fn validate_rows_of_objective(&self) -> Result<()> {
        let (objective, packing) = (&self.objective, &self.packing);
        let with = || set("objective", objective.name().name());
        if let Some(column) = self.columns.iter().find(|column| !objective.makes(**column)) {
            let usual: Vec<String> = objective
                .columns(true)
                .iter()
                .map(|column| format!("`{}`", column.name()))
                .collect();
            let reason = message![
                format!("names `{}`, which rows have not with ", column.name()),
                with(),
                format!("; usual are {}", usual.join(", ")),
            ];
            return Err(Error::option("columns", reason));
        }
        if !objective.has_row_each() {
            return Ok(());
        }
        if !packing.strategy.one_document_a_row() {
            let reason = message![
                format!("is \"{}\", but with ", packing.strategy.name()),
                with(),
                " each document has a row of its own: leave it out, or pass \"none\"",
            ];
            return Err(Error::option("strategy", reason));
        }
        if matches!(packing.overlong, Some(Overlong::Split | Overlong::Trim)) {
            let reason = message!["must be \"drop\", \"truncate\" or \"error\" with ", with()];
            return Err(Error::option("overlong", reason));
        }
        if packing.align_documents_to.is_some() {
            let reason = message!["means nothing with ", with(), ", whose rows hold one document"];
            return Err(Error::option("strategy.align_to", reason));
        }
        if packing.order() == RowOrder::Balanced
            && packing.on_remainder == OnRemainder::Pad
            && !objective.ignores_padding_rows()
        {
            let reason = message![
                "must be \"drop\" or \"repeat\" with ",
                with(),
                ": a row of padding would be trained on",
            ];
            return Err(Error::option("order.on_remainder", reason));
        }
        if matches!(objective, ObjectiveOptions::Preference { .. })
            && packing.truncation_side == Side::Left
        {
            let reason = message![
                "must be \"right\" with ",
                with(),
                ": both answers begin with the same prompt",
            ];
            return Err(Error::option("overlong.side", reason));
        }
        Ok(())
    }

    /// Checks that the options mean something for the objective.
    fn validate_objective(&self) -> Result<()> {
        /// The least room for a part of a document with the tokens around it.
        const LEAST: u32 = 8;
        let (packing, name) = (&self.packing, self.objective.name());
        let meant = || set("objective", name.name());
        let targets = [RowColumn::TargetSeqLengths, RowColumn::DecoderAttentionMask];
        let has_targets = matches!(self.objective, ObjectiveOptions::Span(_));
        let is_function = self.objective == ObjectiveOptions::Function;
        let has_weights = self.objective.is_causal() || is_function;
        for &column in &self.columns {
            let is_wrong = (targets.contains(&column) && !has_targets)
                || (column == RowColumn::LossWeights && !has_weights);
            if is_wrong {
                let what = format!("names `{}`, which rows do not have with ", column.name());
                return Err(Error::option("columns", message![what, meant()]));
            }
        }
        self.objective.validate()?;
        if is_function && self.trims() {
            let reason = message!["is \"trim\", but ", meant(), " makes documents without turns"];
            return Err(Error::option("overlong", reason));
        }
        if self.objective.resizes() && packing.strategy.cuts_at_row_end() {
            let reason = message![
                format!("is \"{}\", which cuts what ", packing.strategy.name()),
                meant(),
                " has put together",
            ];
            return Err(Error::option("strategy", reason));
        }
        let limits = [
            ("max_length", Some(packing.row_limit())),
            ("objective.max_target_length", packing.max_target_length),
        ];
        for (option, limit) in limits {
            if self.objective.resizes() && limit.is_some_and(|limit| limit.get() < LEAST) {
                let reason = message![format!("must be at least {LEAST} with "), meant()];
                return Err(Error::option(option, reason));
            }
        }
        if has_targets && self.pad_to == PadTo::MaxLength && packing.max_target_length.is_none() {
            let reason = "must be given with `padding.to`: the length that targets are padded to";
            return Err(Error::option("objective.max_target_length", reason));
        }
        Ok(())
    }

    /// Checks that documents can be drawn by shares.
    fn validate_shares(&self) -> Result<()> {
        let Some(shares) = &self.shares else { return Ok(()) };
        shares.validate()?;
        if self.copies > NonZeroU32::MIN {
            let reason = "is given beside `objective.copies`; leave one of them out";
            return Err(Error::option(shares.option(), reason));
        }
        Ok(())
    }

    /// Fails if memory has no room for even the shortest padded row.
    fn check_row_memory(&self) -> Result<()> {
        let packing = &self.packing;
        let (option, tokens) = match (self.pad_to, packing.align_documents_to) {
            (PadTo::MaxLength, _) => ("max_length", packing.row_limit().get()),
            (PadTo::Multiple(multiple), _) => ("padding.to", multiple.get()),
            (PadTo::Nothing, Some(align)) => ("strategy.align_to", align.get()),
            (PadTo::Nothing, None) => return Ok(()),
        };
        let bytes = u64::from(tokens) * self.bytes_of_token();
        free_memory::require(bytes, option, || {
            format!("makes every row at least {tokens} tokens long")
        })
    }

    /// Bytes of a token in a row: [`BYTES_OF_VALUE`] in each column that has a value for each token.
    fn bytes_of_token(&self) -> u64 {
        BYTES_OF_VALUE * self.columns.iter().filter(|column| column.is_per_token()).count() as u64
    }
}
