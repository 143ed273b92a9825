//! The options of a run and the rules that they obey. Defaults stand in `python/fastpack/options/`, not here.

mod classes;
mod columns;
mod document_kind;
pub mod identity;
pub(crate) mod inputs;
mod objective;
mod option_words;
mod output;
mod packing;
mod row_options;
mod storage;
mod token_options;
mod trained;
mod validation;
mod work_options;

use chrono::NaiveDateTime;

use crate::error::{Error, Result};
use crate::util::wording::{message, set};
pub(crate) use option_words::option_words;

pub use classes::Classes;
pub(crate) use columns::BYTES_OF_VALUE;
pub use columns::{ColumnUnit, LABEL_SPANS, NumberType, RowColumn};
pub use document_kind::DocumentKind;
pub use inputs::image_options::{ImageOptions, PICTURE_COLUMNS, TokenTypes};
pub use inputs::source_shares::{ShareUnit, Shares, SourceShare, StoppingStrategy};
pub use inputs::{
    ContentForm, Fields, Inputs, MathPrompt, OtherFields, Part, PartFields, Prompt, PromptParts,
    Reading, RecordSource, ShapeEntry, ShapeName, Source,
};
pub use objective::{
    FimOptions, MeanLength, MlmOptions, Noise, ObjectiveName, ObjectiveOptions, PreferenceForm,
    Probability, SpanOptions,
};
pub use output::Output;
pub use output::appending::Appending;
pub use output::file_format::{Compression, Format, RowEncoding, RowLayout};
pub use output::groups::StartingGroups;
pub use packing::{
    Alignment, OnRemainder, Overlong, PackOptions, PadTo, PictureSizes, RowOrder, Side, Strategy,
};
pub use row_options::RowOptions;
pub use storage::{FileFacts, FileSystem, RemoteOutput, ResolvedFile, StorageOptions};
pub use token_options::{Bos, Eos, OnBadRecord, SpecialInText, TokenOptions, TrainOnEos, Turns};
pub use trained::{TrainOn, TrainedTokens, TurnParts};
pub use validation::{Split, Validation};
pub use work_options::{MOST_THREADS, MaxLost, WorkOptions};

/// The options of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The options that decide the tokens.
    pub tokens: TokenOptions,
    /// The options that decide the rows.
    pub rows: RowOptions,
    /// The options that decide how the work is done.
    pub work: WorkOptions,
}

impl Options {
    /// Checks the rules between options.
    pub fn validate(&self) -> Result<()> {
        self.rows.validate()?;
        self.tokens.validate()?;
        self.validate_images()?;
        if self.work.threads.get() > MOST_THREADS {
            return Err(Error::option("threads", format!("must be at most {MOST_THREADS}")));
        }
        Ok(())
    }

    /// Checks that rows of pictures can be made.
    fn validate_images(&self) -> Result<()> {
        let RowOptions { objective, packing, columns, .. } = &self.rows;
        if self.tokens.images.is_none() {
            let of_pictures = [RowColumn::Images, RowColumn::MmTokenTypeIds];
            let named = columns.iter().find(|column| of_pictures.contains(column));
            return named.map_or(Ok(()), |column| {
                let reason = format!(
                    "names `{}`, which only rows with `reading.images` have",
                    column.name()
                );
                Err(Error::option("columns", reason))
            });
        }
        if !objective.is_causal() {
            let reason = message![
                "means nothing with ",
                set("objective", objective.name().name()),
                ", whose rows hold no pictures",
            ];
            return Err(Error::option("reading.images", reason));
        }
        if packing.strategy.cuts_at_row_end() {
            let reason = format!(
                "is \"{}\", which cuts documents inside pictures; leave it out, or pass another",
                packing.strategy.name()
            );
            return Err(Error::option("strategy", reason));
        }
        Ok(())
    }

    /// The time of day that templates see.
    pub fn now(&self) -> NaiveDateTime {
        self.tokens.now.unwrap_or(self.work.started)
    }
}
