//! [`Layout`]: the columns and padding of rows.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use super::compact::{CompactColumn, IdWidth};
use super::{Padding, schema};
use crate::config::{ColumnUnit, NumberType, Options, RowColumn, RowLayout, TokenTypes};
use crate::document::INPUTS;
use crate::error::Result;
use crate::objective::{Objective, causal};
use crate::storage::RemotePictures;

/// The most rows of a batch, such as one of `pack_files`.
const BATCH_ROWS: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// The most tokens of a batch, unless one row has more: 1 MiB a column, the work that one thread takes at a time.
const BATCH_TOKENS: u64 = 1 << 18;

/// The most tokens of a batch of rows that hold their pictures: a few MB of these, as a rule.
const EMBEDDING_BATCH_TOKENS: u64 = 1 << 12;

/// The size of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchSize {
    /// The most rows.
    pub(crate) rows: NonZeroUsize,
    /// The most tokens, unless one row has more.
    pub(crate) tokens: u64,
}

/// The columns, padding, files and groups of rows.
#[derive(Clone, Debug)]
pub struct Layout {
    columns: Vec<RowColumn>,
    objective: Arc<dyn Objective>,
    /// The columns of a batch: those of the rows, or in the compact layout the columns that rows are made from.
    stored: Vec<CompactColumn>,
    written: RowLayout,
    pub(super) padding: Padding,
    /// The padding of targets.
    pub(super) target_padding: Padding,
    pub(super) shift_labels: bool,
    pub(super) sources: NumberedFiles,
    /// Rows that are trained on in one step.
    group: usize,
    /// The types of tokens in rows of pictures.
    token_types: Vec<TokenTypes>,
    /// True if rows hold the bytes of their pictures.
    embeds_pictures: bool,
    /// The pictures in remote storage.
    remote_pictures: Option<Arc<RemotePictures>>,
}

impl Layout {
    /// These columns, without padding.
    pub fn plain(columns: &[RowColumn]) -> Self {
        Self {
            columns: columns.to_vec(),
            objective: causal(),
            stored: CompactColumn::plain(columns),
            written: RowLayout::Full,
            padding: Padding::NONE,
            target_padding: Padding::NONE,
            shift_labels: false,
            sources: NumberedFiles::default(),
            group: 1,
            token_types: Vec::new(),
            embeds_pictures: false,
            remote_pictures: None,
        }
    }

    /// The layout that the options ask for, for `objective` and documents from `sources`. `pad_id` is the default
    /// padding token.
    pub fn new(
        options: &Options,
        objective: Arc<dyn Objective>,
        pad_id: Option<u32>,
        sources: NumberedFiles,
    ) -> Result<Self> {
        let padding = Padding::new(options, pad_id)?;
        Ok(Self {
            columns: options.rows.columns.clone(),
            objective,
            stored: CompactColumn::plain(&options.rows.columns),
            written: RowLayout::Full,
            padding,
            target_padding: padding.of_targets(options),
            shift_labels: options.rows.shift_labels,
            sources,
            group: options.rows.packing.balance_ranks.map_or(1, |size| size.get() as usize),
            token_types: options
                .tokens
                .images
                .iter()
                .flat_map(|it| it.token_types.clone())
                .collect(),
            embeds_pictures: options.tokens.images.as_ref().is_some_and(|it| it.embed),
            remote_pictures: None,
        })
    }

    /// The layout of rows whose pictures may lie in remote storage.
    #[must_use]
    pub(crate) fn with_remote_pictures(self, pictures: Option<Arc<RemotePictures>>) -> Self {
        Self { remote_pictures: pictures, ..self }
    }

    /// The layout of the same rows, stored as `written`; `largest_id` is the largest id of their tokenizer, if it is known.
    #[must_use]
    pub fn stored_as(self, written: RowLayout, largest_id: Option<u32>) -> Self {
        let stored = match written {
            RowLayout::Full => CompactColumn::plain(&self.columns),
            RowLayout::Compact => {
                let largest_id = largest_id.map(|id| id.max(self.padding.id().cast_unsigned()));
                CompactColumn::compact(&self.columns, IdWidth::of(largest_id), self.shift_labels)
            }
        };
        Self { stored, written, ..self }
    }

    /// The layout for rows, some of which are nothing but padding with the token `id`.
    #[must_use]
    pub(crate) fn with_padding_rows(self, id: u32) -> Self {
        Self { padding: self.padding.with_id(id), ..self }
    }

    /// The columns of a batch, in their order.
    pub(super) fn stored(&self) -> &[CompactColumn] {
        &self.stored
    }

    /// The objective that rows are made for.
    pub(crate) fn objective(&self) -> &Arc<dyn Objective> {
        &self.objective
    }

    /// The numbers of a column of the rows.
    fn kind(&self, column: RowColumn) -> (NumberType, ColumnUnit) {
        if let (NumberType::Picture { .. }, per) = column.usual() {
            return (NumberType::Picture { embedded: self.embeds_pictures }, per);
        }
        let own = self.objective.columns().into_iter().find(|own| own.name == column);
        own.map_or_else(|| column.usual(), |own| (own.number, own.per))
    }

    /// The schema of a batch.
    pub fn schema(&self) -> SchemaRef {
        match self.written {
            RowLayout::Full => schema::of_kinds(&self.columns, |column| self.kind(column)),
            RowLayout::Compact => {
                schema::compact(&self.stored, &self.columns, |column| self.kind(column))
            }
        }
    }

    /// The columns of the rows, in their order.
    pub fn columns(&self) -> &[RowColumn] {
        &self.columns
    }

    /// The types of tokens in a column of rows of pictures.
    pub(super) fn token_types(&self, column: RowColumn) -> Option<&TokenTypes> {
        self.token_types.iter().find(|types| types.column == column)
    }

    /// True if rows are made of more of their documents than the ids.
    pub(crate) fn needs_whole_documents(&self) -> bool {
        self.objective.reads() != [INPUTS] || self.columns.contains(&RowColumn::Images)
    }

    /// True if rows hold the bytes of their pictures.
    pub(crate) fn embeds_pictures(&self) -> bool {
        self.embeds_pictures
    }

    /// The pictures in remote storage, if there may be any.
    pub(super) fn remote_pictures(&self) -> Option<&RemotePictures> {
        self.remote_pictures.as_deref()
    }

    /// The size of a batch of rows.
    pub(crate) fn batch_size(&self) -> BatchSize {
        let tokens = if self.embeds_pictures { EMBEDDING_BATCH_TOKENS } else { BATCH_TOKENS };
        BatchSize { rows: BATCH_ROWS, tokens }
    }

    /// The padding of rows.
    pub fn padding(&self) -> Padding {
        self.padding
    }

    /// The files that documents come from.
    pub(crate) fn sources(&self) -> &NumberedFiles {
        &self.sources
    }

    /// The number of the step in which a row is trained on.
    pub(super) fn group(&self, row: usize) -> i32 {
        i32::try_from(row / self.group).unwrap_or(i32::MAX)
    }
}

/// The files that documents come from, by number.
#[derive(Clone, Debug, Default)]
pub struct NumberedFiles {
    paths: Arc<[Arc<Path>]>,
    /// The numbers in the order of the paths. A table by path would take 41 bytes for each of many files.
    by_path: Arc<[i32]>,
}

impl NumberedFiles {
    /// The files in their order.
    pub fn new(paths: impl IntoIterator<Item = Arc<Path>>) -> Self {
        let paths: Arc<[Arc<Path>]> = paths.into_iter().collect();
        let mut by_path: Vec<i32> = (0..).take(paths.len()).collect();
        by_path.sort_by_key(|&number| paths[index(number)].as_os_str());
        Self { paths, by_path: by_path.into() }
    }

    /// The names of the files, in their order.
    pub fn names(&self) -> Vec<String> {
        self.paths.iter().map(|path| path.display().to_string()).collect()
    }

    /// The files by the numbers of [`ranks`](Self::ranks).
    pub(crate) fn in_order(&self) -> Vec<Arc<Path>> {
        let mut files: Vec<_> = self.ranks().into_iter().collect();
        files.sort_unstable_by_key(|(_, rank)| *rank);
        files.into_iter().map(|(path, _)| path).collect()
    }

    /// The number of each file. A file that is read several times has one number.
    pub(crate) fn ranks(&self) -> HashMap<Arc<Path>, u64> {
        let numbered = self.paths.iter().zip(0..);
        let files = numbered.filter(|&(path, number)| self.number(path) == number);
        files.map(|(path, _)| Arc::clone(path)).zip(0..).collect()
    }

    /// The number of a file; 0 for documents without a file.
    pub(super) fn number(&self, path: &Arc<Path>) -> i32 {
        let path_of = |number: i32| self.paths[index(number)].as_os_str();
        let after = self.by_path.partition_point(|&number| path_of(number) <= path.as_os_str());
        let found = after.checked_sub(1).map(|last| self.by_path[last]);
        found.filter(|&number| path_of(number) == path.as_os_str()).unwrap_or(0)
    }
}

/// The index of a numbered file.
fn index(number: i32) -> usize {
    usize::try_from(number).expect("numbers count from 0")
}
