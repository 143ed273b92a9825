//! The options of a run and the rules that they obey. Defaults stand in `api/options.py`, not here.

mod columns;
mod documents;
mod groups;
mod inputs;
mod objective;
mod packing;
mod storage;
pub(crate) mod usual;
mod validation;
mod words;

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use chrono::NaiveDateTime;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::room;
use crate::wording::{Message, message, set};
pub(crate) use words::option_words;

pub use columns::{Number, Per, RowColumn};
pub use documents::DocumentKind;
pub use groups::Turn;
pub use inputs::{
    Fields, Inputs, MathPrompt, Part, Prompt, PromptParts, Reading, ShapeName, Source,
};
pub use objective::{
    FimOptions, MeanLength, MlmOptions, Noise, ObjectiveName, ObjectiveOptions, PreferenceForm,
    Probability, SpanOptions,
};
pub use packing::{OnRemainder, Order, Overlong, PackOptions, PadTo, Side, Strategy};
pub use storage::{GivenFile, RemoteOutput, StorageOptions};
pub use validation::{Split, Validation};

option_words! {
    /// The tokens that carry a label.
    #[non_exhaustive]
    pub enum TrainOn {
        /// The assistant's turns of a conversation, the answer to a request, and all of a text.
        Auto = "auto",
        /// All tokens.
        All = "all",
        /// The assistant's turns, and the answer to a request. A text is refused.
        Assistant = "assistant",
        /// The last turn of the assistant, and the answer to a request. A text is refused.
        LastAssistant = "last_assistant",
        /// The answer to a request. Conversations and texts are refused.
        Completion = "completion",
    }
}

/// When a document ends with the tokenizer's end-of-text token.
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

/// When a document begins with the tokenizer's beginning-of-text token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bos {
    /// The tokenizer decides for a text, and the template for a conversation.
    Auto,
    /// Every document begins with one.
    Always,
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
    /// The treatment of a record that cannot be read.
    pub enum OnBadRecord {
        /// The run fails, naming file, line and reason.
        Error = "error",
        /// It is left out and counted by its reason.
        Skip = "skip",
    }
}

/// The share of the documents, and of their tokens, that a run may lose, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaxLost(f64);

impl MaxLost {
    /// This share; `None` if it is not between 0 and 1.
    pub fn new(share: f64) -> Option<Self> {
        (0.0..=1.0).contains(&share).then_some(Self(share))
    }

    /// Whether `lost` is a larger share of `read`.
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts beyond 2^53 differ by less than any share"
    )]
    pub fn is_exceeded(self, lost: u64, read: u64) -> bool {
        lost as f64 / read.max(1) as f64 > self.0
    }
}

impl fmt::Display for MaxLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded to more digits than anybody gives: 100 times 0.07 is not 7.
        write!(f, "{}%", (self.0 * 1e14).round() / 1e12)
    }
}

/// The options that decide the tokens, and which of them are trained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenOptions {
    /// The tokens that carry a label.
    pub train_on: TrainOn,
    /// The end-of-turn tokens that are trained; by default those that the template marks.
    pub train_on_eos: Option<TrainOnEos>,
    /// When an end-of-text token is added.
    pub eos: Eos,
    /// When a beginning-of-text token is added.
    pub bos: Bos,
    /// The treatment of records that cannot be read.
    pub on_bad_record: OnBadRecord,
    /// The local time that templates see, without a zone; by default the start of the job.
    pub now: Option<NaiveDateTime>,
    /// The kind of documents that are made.
    #[serde(default, skip_serializing_if = "DocumentKind::is_texts")]
    pub documents: DocumentKind,
}

/// The options that decide the rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowOptions {
    /// The packing of documents into rows.
    pub packing: PackOptions,
    /// The length that rows are padded to.
    pub pad_to: PadTo,
    /// The side of a row that is padded.
    pub padding_side: Side,
    /// The id of padding; by default the tokenizer's own.
    pub pad_token_id: Option<u32>,
    /// Whether labels are shifted: each stands one place before its token, where it is predicted.
    pub shift_labels: bool,
    /// The columns of the rows, in their order.
    pub columns: Vec<RowColumn>,
    /// The training objective.
    #[serde(default, skip_serializing_if = "ObjectiveOptions::is_causal")]
    pub objective: ObjectiveOptions,
    /// The number of copies of the documents, each drawn anew by the objective.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub epochs: NonZeroU32,
}

/// The options that decide how the work is done. They never change the output.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkOptions {
    /// The share that may be lost before the run fails. Without it, a run fails only if it keeps nothing.
    pub max_lost: Option<MaxLost>,
    /// The number of documents, evenly spread over the input, that the reference engine encodes too.
    pub verify: u32,
    /// Worker threads.
    pub threads: NonZeroUsize,
    /// The time at which the run started.
    pub started: NaiveDateTime,
}

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

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_one(number: &NonZeroU32) -> bool {
    *number == NonZeroU32::MIN
}

impl TokenOptions {
    fn validate(&self) -> Result<()> {
        if self.train_on == TrainOn::All && self.train_on_eos.is_some() {
            let reason = message![
                "is given, but ",
                set("train_on", "all"),
                " trains every token; leave one of them out",
            ];
            return Err(Error::option("train_on_eos", reason));
        }
        Ok(())
    }
}

impl RowOptions {
    /// Whether a conversation that is too long is cut after a turn. The ends of its turns are kept for that.
    pub(crate) fn trims(&self) -> bool {
        self.packing.overlong == Some(Overlong::Trim)
    }

    fn validate(&self) -> Result<()> {
        self.packing.validate()?;
        self.objective.validate(self)?;
        self.pad_to.validate(&self.packing)?;
        if self.pad_token_id.is_some_and(|id| i32::try_from(id).is_err()) {
            return Err(Error::option("pad_token_id", "must be a token id, below 2147483648"));
        }
        if self.columns.is_empty() {
            return Err(Error::option("columns", "must name at least one column"));
        }
        for (at, column) in self.columns.iter().enumerate() {
            if self.columns[..at].contains(column) {
                return Err(Error::option("columns", "names a column twice"));
            }
        }
        if self.columns.contains(&RowColumn::Group) && self.packing.order() != Order::Balanced {
            let reason = message!["names `group`, which only ", set("order", "balanced"), " makes"];
            return Err(Error::option("columns", reason));
        }
        self.validate_objective()?;
        self.room_of_a_row()?;
        if self.padding_side == Side::Left && self.pad_to == PadTo::Nothing {
            let reason = "is \"left\", but without `pad_to` no row is filled up";
            return Err(Error::option("padding_side", reason));
        }
        Ok(())
    }

    /// Checks that the options mean something for the objective.
    fn validate_objective(&self) -> Result<()> {
        /// The least room for a part of a document with what is put around it.
        const LEAST: u32 = 8;
        let (packing, name) = (&self.packing, self.objective.name());
        let meant = || set("objective", name.name());
        let targets = [RowColumn::TargetSeqLengths, RowColumn::DecoderAttentionMask];
        let has_targets = matches!(self.objective, ObjectiveOptions::Span(_));
        for &column in &self.columns {
            let is_wrong = (targets.contains(&column) && !has_targets)
                || (column == RowColumn::LossWeights && !self.objective.is_causal());
            if is_wrong {
                let what = format!("names `{}`, which rows do not have with ", column.name());
                return Err(Error::option("columns", message![what, meant()]));
            }
        }
        if let ObjectiveOptions::Mlm(mlm) = &self.objective
            && mlm.mask_replace.get() + mlm.random_replace.get() > 1.0
        {
            let reason = "and `mask_replace_prob` must be at most 1 together";
            return Err(Error::option("random_replace_prob", reason));
        }
        if self.objective.resizes() && packing.strategy == Strategy::Concat {
            let reason = message!["is \"concat\", which cuts what ", meant(), " has put together"];
            return Err(Error::option("strategy", reason));
        }
        let limits = [
            ("max_length", Some(packing.row_limit())),
            ("max_target_length", packing.max_target_length),
        ];
        for (option, limit) in limits {
            if self.objective.resizes() && limit.is_some_and(|limit| limit.get() < LEAST) {
                let reason = message![format!("must be at least {LEAST} with "), meant()];
                return Err(Error::option(option, reason));
            }
        }
        if has_targets && self.pad_to == PadTo::MaxLength && packing.max_target_length.is_none() {
            let reason = "must be given with `pad_to`: the length that targets are padded to";
            return Err(Error::option("max_target_length", reason));
        }
        Ok(())
    }

    /// Fails if memory has no room for even the shortest padded row.
    fn room_of_a_row(&self) -> Result<()> {
        let packing = &self.packing;
        let (option, tokens) = match (self.pad_to, packing.align_documents_to) {
            (PadTo::MaxLength, _) => ("max_length", packing.row_limit().get()),
            (PadTo::Multiple(multiple), _) => ("pad_to", multiple.get()),
            (PadTo::Nothing, Some(align)) => ("align_documents_to", align.get()),
            (PadTo::Nothing, None) => return Ok(()),
        };
        let bytes = u64::from(tokens) * self.bytes_of_token();
        room::require(bytes, option, || format!("makes every row at least {tokens} tokens long"))
    }

    /// Bytes of a token in a row: 4 in each column that has a value for each token.
    fn bytes_of_token(&self) -> u64 {
        4 * self.columns.iter().filter(|column| column.is_per_token()).count() as u64
    }
}

impl Options {
    /// Checks the rules between options.
    pub fn validate(&self) -> Result<()> {
        self.rows.validate()?;
        self.tokens.validate()?;
        if self.work.threads.get() > MOST_THREADS {
            return Err(Error::option("threads", format!("must be at most {MOST_THREADS}")));
        }
        Ok(())
    }

    /// The time of day that templates see.
    pub fn now(&self) -> NaiveDateTime {
        self.tokens.now.unwrap_or(self.work.started)
    }
}

/// The most threads that a run may ask for: more than any machine has cores, fewer than any system refuses.
pub const MOST_THREADS: usize = 1024;

option_words! {
    /// The file format of the output.
    #[non_exhaustive]
    pub enum Format {
        /// Arrow IPC stream files.
        Arrow = "arrow",
        /// A JSON object a row.
        Jsonl = "jsonl",
        /// A `MessagePack` map a row.
        Msgpack = "msgpack",
        /// One `MessagePack` array with an array a row: ids, labels, positions, length.
        MsgpackArrays = "msgpack_arrays",
        /// Parquet files.
        Parquet = "parquet",
    }
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 5] =
        [Self::Arrow, Self::Jsonl, Self::Msgpack, Self::MsgpackArrays, Self::Parquet];

    /// The extension of its files.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Arrow => "arrow",
            Self::Jsonl => "jsonl",
            Self::Msgpack | Self::MsgpackArrays => "msgpack",
            Self::Parquet => "parquet",
        }
    }

    /// The compressions that its files may have, besides none.
    fn compressions(self) -> &'static [Compression] {
        match self {
            Self::Arrow => &[Compression::Lz4, Compression::Zstd],
            Self::Jsonl | Self::Msgpack | Self::MsgpackArrays => &[],
            Self::Parquet => &[Compression::Lz4, Compression::Snappy, Compression::Zstd],
        }
    }
}

option_words! {
    /// The compression of the columns of a file.
    pub enum Compression {
        /// None.
        None = "none",
        /// By LZ4.
        Lz4 = "lz4",
        /// By Snappy.
        Snappy = "snappy",
        /// By Zstandard.
        Zstd = "zstd",
    }
}

option_words! {
    /// The columns that a file holds of a row.
    #[derive(Default)]
    pub enum RowLayout {
        /// All columns of the row, as every reader of Arrow takes them.
        #[default]
        Full = "full",
        /// Ids in 16 bits where the vocabulary allows it, the runs of trained tokens, and the lengths of
        /// documents. Readers of fastpack make the other columns from these.
        Compact = "compact",
    }
}

/// The encoding of rows in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coding {
    /// The file format.
    pub format: Format,
    /// The columns that a file holds of a row.
    #[serde(default)]
    pub layout: RowLayout,
    /// The compression of columns; by default Zstandard for Parquet, and none for others.
    pub compression: Option<Compression>,
}

/// The output folder of `pack_dir`, and its options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Output {
    /// The folder.
    #[serde(skip)]
    pub dir: PathBuf,
    /// The encoding of rows.
    #[serde(flatten)]
    pub coding: Coding,
    /// Whether each input has an output of its own, with the name of the input.
    pub per_file: bool,
    /// Whether the folder is arranged as `datasets.load_from_disk` maps it.
    pub hf_layout: bool,
    /// The documents that are set aside for validation, if any.
    pub validation: Option<Validation>,
    /// A shard is closed once it holds this many bytes of column data.
    pub shard_bytes: u64,
    /// Whether the tokens stay in the folder, so that they can be repacked.
    pub keep_tokens: bool,
    /// Bytes of inputs that make a group, which is packed alone; `None` if all inputs are packed together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_bytes: Option<NonZeroU64>,
    /// The groups that this call begins with, if it is one of several; without it, there is one call.
    #[serde(skip)]
    pub turn: Option<Turn>,
    /// Whether earlier output of fastpack in the folder may be replaced, of any job.
    #[serde(skip)]
    pub overwrite: bool,
    /// Whether other ranks run the same job. Then the rank that finishes it does so for all, also with
    /// `overwrite`.
    #[serde(skip)]
    pub shared: bool,
    /// Whether no two runs count as the same job, because the records or a function have no identity. Then no
    /// run resumes another, and none accepts a finished folder.
    #[serde(skip)]
    pub once: bool,
    /// Whether to wait for another run that writes to the folder, rather than to fail.
    #[serde(skip)]
    pub wait: bool,
    /// Bytes of memory that documents may take. Documents beyond that are read back from the folder.
    #[serde(skip)]
    pub memory: u64,
    /// The arguments of this call as a JSON object, for the manifest. With them the call can be made again.
    #[serde(skip)]
    pub recipe: Option<String>,
    /// The folder in a bucket to which the finished folder is uploaded, if the output is to lie there.
    #[serde(skip)]
    pub remote: Option<RemoteOutput>,
}

impl Output {
    /// The output with only the options that decide the files. The others are blanked.
    #[must_use]
    pub fn deciding(&self) -> Self {
        Self {
            dir: PathBuf::new(),
            turn: None,
            overwrite: false,
            shared: false,
            once: false,
            wait: false,
            memory: 0,
            recipe: None,
            remote: None,
            ..self.clone()
        }
    }

    /// Checks that the format can hold `columns`, with this compression, and that outputs have one name each.
    pub fn validate(&self, rows: &RowOptions) -> Result<()> {
        let columns = &rows.columns;
        self.validate_groups(columns)?;
        if self.per_file && self.validation.is_some() {
            return Err(Error::option("validation", Self::not_by_file()));
        }
        let Coding { format, compression, layout } = self.coding;
        if layout == RowLayout::Compact {
            if rows.objective.has_row_each() {
                let reason = message![
                    "is \"compact\", which only packed rows have; leave it out with ",
                    set("objective", rows.objective.name().name()),
                ];
                return Err(Error::option("layout", reason));
            }
            self.validate_compact()?;
        }
        if self.hf_layout && format != Format::Arrow {
            let reason = message![
                "needs ",
                set("format", "arrow"),
                ", which is what `datasets` maps; leave one of them out",
            ];
            return Err(Error::option("hf_layout", reason));
        }
        if self.hf_layout && self.per_file {
            return Err(Error::option("hf_layout", Self::not_by_file()));
        }
        let compressed = compression.filter(|it| *it != Compression::None);
        if compressed.is_some_and(|it| !format.compressions().contains(&it)) {
            let reason = "is none that this format has; arrow takes \"lz4\" and \"zstd\", parquet also \"snappy\"";
            return Err(Error::option("compression", reason));
        }
        if format == Format::MsgpackArrays && *columns != ARRAYS {
            let reason = message![
                "must be input_ids, labels, position_ids for ",
                set("format", "msgpack_arrays"),
                ", which has no names",
            ];
            return Err(Error::option("columns", reason));
        }
        Ok(())
    }

    /// The fault of an option that needs all files packed together.
    fn not_by_file() -> Message {
        message![
            "cannot be given with ",
            set("per_file", true),
            ", which names outputs after their inputs; leave one of them out",
        ]
    }

    /// Checks that the format has 16-bit integers, and that no other library would read the folder as full
    /// rows.
    fn validate_compact(&self) -> Result<()> {
        if !matches!(self.coding.format, Format::Arrow | Format::Parquet) {
            let reason = message![
                "is \"compact\", which needs ",
                set("format", "arrow"),
                " or \"parquet\": the others have no smaller numbers",
            ];
            return Err(Error::option("layout", reason));
        }
        if self.hf_layout {
            let reason = message![
                "is \"compact\", whose columns `datasets` does not know; leave ",
                set("hf_layout", true),
                " out, and read the folder with fastpack.hf.load",
            ];
            return Err(Error::option("layout", reason));
        }
        Ok(())
    }
}

/// The columns of a row of [`Format::MsgpackArrays`], before its length.
const ARRAYS: [RowColumn; 3] = [RowColumn::InputIds, RowColumn::Labels, RowColumn::PositionIds];
