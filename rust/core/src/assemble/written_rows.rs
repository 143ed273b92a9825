//! The beginnings of documents in packed rows that were written, and the content of each row.

use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::Range;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Float64Type, Int64Type};
use arrow::record_batch::RecordBatch;
use foldhash::quality::FixedState;
use serde_json::{Map, Value};

use super::compact::CompactRows;
use super::lists::{Lists, NumberLists, numbers};
use super::padding::NO_SOURCE;
use crate::config::{LABEL_SPANS, ObjectiveName, RowColumn};
use crate::error::{Error, Result};
use crate::objective::UNTRAINED;
use crate::util::control::Control;

/// The columns of a prompt and its answers.
pub(super) const ANSWERS: [RowColumn; 4] =
    [RowColumn::PromptIds, RowColumn::ChosenIds, RowColumn::RejectedIds, RowColumn::CompletionIds];

/// The options that rows were packed with, as far as they are known.
#[derive(Clone, Debug, Default)]
pub struct PackedOptions {
    pub(super) objective: Option<ObjectiveName>,
    pub(super) max_length: Option<u64>,
    pub(super) max_target_length: Option<u64>,
    pub(super) max_images_per_pack: Option<u64>,
    pub(super) shift_labels: bool,
    /// The token of padding, and whether it stands on the left, of rows that are padded.
    padding: Option<(i64, bool)>,
}

impl PackedOptions {
    /// The options in a manifest (JSON), which leaves defaults out.
    pub fn parse(json: &str) -> Result<Self> {
        let options: Map<String, Value> = serde_json::from_str(json)
            .map_err(|error| Error::Rows(format!("the options of rows are no object: {error}")))?;
        Ok(Self::of(&options))
    }

    fn of(options: &Map<String, Value>) -> Self {
        let number = |name: &str| options.get(name).and_then(Value::as_u64);
        let objective = options.get("objective").and_then(|objective| objective.get("kind"));
        let known = |name: &str| ObjectiveName::WORDS.iter().find(|(word, _)| *word == name);
        let is_padded = match options.get("padding") {
            None | Some(Value::Null) => false,
            Some(Value::String(word)) => word != "nothing",
            Some(_) => true,
        };
        let token = options.get("padding.token_id").and_then(Value::as_i64);
        let is_left = options.get("padding.side").and_then(Value::as_str) == Some("left");
        Self {
            objective: objective.and_then(Value::as_str).and_then(known).map(|&(_, name)| name),
            max_length: number("max_length"),
            max_target_length: number("objective.max_target_length"),
            max_images_per_pack: number("reading.images.max_images_per_pack"),
            shift_labels: options.get("objective.shift_labels").and_then(Value::as_bool)
                == Some(true),
            padding: token.filter(|_| is_padded).map(|token| (token, is_left)),
        }
    }

    /// True if each row holds one document, and no column says where it begins.
    pub(super) fn has_one_document(&self) -> bool {
        matches!(
            self.objective,
            Some(
                ObjectiveName::Preference
                    | ObjectiveName::Generation
                    | ObjectiveName::Classification
                    | ObjectiveName::MultiLabel
            )
        )
    }
}

/// The documents of the rows of a batch: the entries of `seq_lengths`, or else the stretches of `position_ids` that count
/// from 0, or else each row.
pub(super) struct Boundaries {
    pub(super) ids: Option<NumberLists<Int64Type>>,
    pub(super) lengths: Option<NumberLists<Int64Type>>,
    pub(super) positions: Option<NumberLists<Int64Type>>,
    /// The columns of answers, for rows without `input_ids`.
    answers: Vec<Lists>,
}

impl Boundaries {
    pub(super) fn of(batch: &RecordBatch) -> Result<Self> {
        let column = |column: RowColumn| NumberLists::of(batch, column.name());
        let ids = column(RowColumn::InputIds)?;
        let mut answers = Vec::new();
        if ids.is_none() {
            for column in ANSWERS {
                answers.extend(Lists::of(batch, column.name())?);
            }
        }
        let (lengths, positions) =
            (column(RowColumn::SeqLengths)?, column(RowColumn::PositionIds)?);
        Ok(Self { ids, lengths, positions, answers })
    }

    /// The tokens of each document of a row, padding included.
    pub(super) fn documents(&self, row: usize) -> Vec<Range<usize>> {
        if let Some(lengths) = &self.lengths {
            let mut end = 0;
            let to_range = |&length: &i64| {
                let start = end;
                end += usize::try_from(length).unwrap_or(0);
                start..end
            };
            return lengths.row(row).iter().map(to_range).collect();
        }
        let Some(positions) = self.positions.as_ref().map(|positions| positions.row(row)) else {
            let answers = self.answers.iter().map(|answer| answer.len(row)).sum();
            let tokens = self.ids.as_ref().map_or(answers, |ids| ids.row(row).len());
            return std::iter::once(0..tokens).collect();
        };
        let zeros = (0..positions.len()).filter(|&at| at == 0 || positions[at] == 0);
        let starts: Vec<usize> = zeros.collect();
        let ends = starts.iter().skip(1).copied().chain([positions.len()]);
        starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
    }
}

/// The documents of some rows, a value of each column for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentTable {
    /// The row.
    pub rows: Vec<i64>,
    /// The number in the row, padding counted, from 0.
    pub numbers: Vec<i64>,
    /// The first token in the row.
    pub starts: Vec<i64>,
    /// The tokens in the row.
    pub lengths: Vec<i64>,
    /// The tokens without padding: 0 for an entry that is padding.
    pub unpadded: Vec<i64>,
    /// The labels.
    pub labels: Vec<i64>,
    /// The number of the file; -1 where it is unknown.
    pub files: Vec<i64>,
}

/// The documents of rows in the full or the compact layout.
pub fn documents_of(
    batches: &[RecordBatch],
    options: &PackedOptions,
    control: &Control,
) -> Result<DocumentTable> {
    let (mut table, mut first_row) = (DocumentTable::default(), 0);
    for batch in batches {
        control.tick()?;
        table.extend(batch, options, first_row)?;
        first_row += signed(batch.num_rows());
    }
    Ok(table)
}

impl DocumentTable {
    fn extend(
        &mut self,
        batch: &RecordBatch,
        options: &PackedOptions,
        first_row: i64,
    ) -> Result<()> {
        let documents = Boundaries::of(batch)?;
        let unpadded = NumberLists::<Int64Type>::of(batch, RowColumn::UnpaddedLengths.name())?;
        let files = NumberLists::<Int64Type>::of(batch, RowColumn::SourceFile.name())?;
        let compact = LABEL_SPANS.iter().any(|name| batch.column_by_name(name).is_some());
        let compact = compact.then(|| CompactRows::new(batch.clone(), 0)).transpose()?;
        let labels = token_labels(batch);
        for row in 0..batch.num_rows() {
            let trained = match (&compact, &labels) {
                (Some(rows), _) => {
                    let label_list = rows.numbers(RowColumn::Labels, row..row + 1)?;
                    label_list.values().iter().map(|&label| label != UNTRAINED).collect()
                }
                (None, Some(labels)) => {
                    labels.row(row).iter().map(|&label| label != i64::from(UNTRAINED)).collect()
                }
                (None, None) => Vec::new(),
            };
            let ranges = documents.documents(row);
            let last = ranges.len().saturating_sub(1);
            for (number, tokens) in ranges.into_iter().enumerate() {
                self.rows.push(first_row + signed(row));
                self.numbers.push(signed(number));
                self.starts.push(signed(tokens.start));
                self.lengths.push(signed(tokens.len()));
                let known = unpadded.as_ref().and_then(|it| it.row(row).get(number).copied());
                let is_padding = || {
                    let ids =
                        documents.ids.as_ref().and_then(|ids| ids.row(row).get(tokens.clone()));
                    is_padding(ids.unwrap_or_default(), number == 0, number == last, options)
                };
                let whole = || if is_padding() { 0 } else { signed(tokens.len()) };
                self.unpadded.push(known.unwrap_or_else(whole));
                let trained = trained.get(tokens.clone()).unwrap_or_default();
                self.labels.push(signed(trained.iter().filter(|trained| **trained).count()));
                let file = files.as_ref().and_then(|files| files.row(row).get(number).copied());
                self.files.push(file.unwrap_or(NO_SOURCE.into()));
            }
        }
        Ok(())
    }
}

/// True if an entry of `seq_lengths` with these ids is the padding of its row: it is at the padded end, and begins and
/// ends with the token of padding.
fn is_padding(ids: &[i64], is_first: bool, is_last: bool, options: &PackedOptions) -> bool {
    options.padding.is_some_and(|(token, is_left)| {
        let is_edge = if is_left { is_first } else { is_last };
        is_edge && ids.first() == Some(&token) && ids.last() == Some(&token)
    })
}

/// The labels, where they are those of tokens.
fn token_labels(batch: &RecordBatch) -> Option<NumberLists<Int64Type>> {
    NumberLists::of(batch, RowColumn::Labels.name()).ok().flatten()
}

/// A hash of the tokens and labels of each document of rows in the full layout.
pub fn document_hashes(batches: &[RecordBatch], control: &Control) -> Result<Vec<u64>> {
    let mut hashes = Vec::new();
    for batch in batches {
        control.tick()?;
        let (documents, labels) = (Boundaries::of(batch)?, token_labels(batch));
        for row in 0..batch.num_rows() {
            for tokens in documents.documents(row) {
                let mut mixer = FixedState::default().build_hasher();
                for values in [&documents.ids, &labels].into_iter().flatten() {
                    values.row(row).get(tokens.clone()).unwrap_or_default().hash(&mut mixer);
                }
                hashes.push(mixer.finish());
            }
        }
    }
    Ok(hashes)
}

/// The first row whose `position_ids` start again, so that it holds several documents.
pub fn first_restart(batches: &[RecordBatch]) -> Option<usize> {
    let mut first_row = 0;
    for batch in batches {
        let found = NumberLists::<Int64Type>::of(batch, RowColumn::PositionIds.name());
        if let Some(positions) = found.ok().flatten() {
            let restarts =
                |row: &usize| positions.row(*row).iter().filter(|&&it| it == 0).count() > 1;
            if let Some(row) = (0..batch.num_rows()).find(restarts) {
                return Some(first_row + row);
            }
        }
        first_row += batch.num_rows();
    }
    None
}

/// A document of a row, with its tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct InspectedDocument {
    /// The place of its first token in the row.
    pub start: usize,
    /// Its tokens.
    pub ids: Vec<i64>,
    /// Their labels, or its targets.
    pub labels: Vec<i64>,
    /// The number of the file; -1 where it is unknown.
    pub file: i64,
    /// The line in the file, from 1; 0 where it is unknown.
    pub line: i64,
    /// True if `labels` are targets of their own, apart from the tokens of the row.
    pub has_targets: bool,
    /// The label of the whole document.
    pub label: Option<RowLabel>,
}

/// The label of a whole document.
#[derive(Clone, Debug, PartialEq)]
pub enum RowLabel {
    /// A judgement.
    Judgement(bool),
    /// A class.
    Class(i64),
    /// A truth for each class.
    Truths(Vec<f64>),
}

impl RowLabel {
    /// The label in the first row of a column; `None` where the row has a list of whole numbers.
    fn of(batch: &RecordBatch, column: RowColumn) -> Option<Self> {
        let values = batch.column_by_name(column.name()).filter(|values| !values.is_empty())?;
        let kind = values.data_type();
        if kind.is_integer() {
            return Some(Self::Class(numbers::<Int64Type>(values).ok()?.value(0)));
        }
        if let Some(truths) = values.as_boolean_opt() {
            return Some(Self::Judgement(truths.value(0)));
        }
        let truths =
            Lists::split(values).filter(Lists::are_real)?.numbers::<Float64Type>(0..1).ok()?;
        (!truths.is_empty()).then(|| Self::Truths(truths.values().to_vec()))
    }
}

/// The documents of one row in the full layout, or a document for each answer to its prompt.
///
/// Fails with [`Error::Rows`] if it is no packed row.
pub fn inspect_row(batches: &[RecordBatch]) -> Result<Vec<InspectedDocument>> {
    let no_row = |what: &str| Error::Rows(format!("no packed row: {what}"));
    let Some(batch) = batches.iter().find(|batch| batch.num_rows() > 0) else {
        return Err(no_row("there is none"));
    };
    let column = |column: RowColumn| match NumberLists::<Int64Type>::of(batch, column.name()) {
        Ok(found) => Ok(found.map(|lists| lists.row(0).to_vec())),
        Err(_) => Err(no_row("`input_ids` and the columns beside it hold lists of integers")),
    };
    let places = [RowColumn::SourceFile, RowColumn::SourceRow].map(column);
    let [files, lines] = places.map(|place| place.map(Option::unwrap_or_default));
    let (files, lines) = (files?, lines?);
    let of_document = |number: usize| {
        let file = files.get(number).copied().unwrap_or(NO_SOURCE.into());
        (file, lines.get(number).copied().unwrap_or(0).max(0))
    };
    let answers = [RowColumn::ChosenIds, RowColumn::RejectedIds, RowColumn::CompletionIds];
    if answers.iter().any(|answer| batch.column_by_name(answer.name()).is_some()) {
        let prompt = column(RowColumn::PromptIds)?;
        let ((file, line), label) = (of_document(0), RowLabel::of(batch, RowColumn::Label));
        let has_targets = prompt.is_some();
        let (mut documents, mut start) = (Vec::new(), 0);
        for answer in answers {
            let Some(answer) = column(answer)? else { continue };
            let (ids, labels) = match &prompt {
                Some(prompt) => (prompt.clone(), answer),
                None => (answer, Vec::new()),
            };
            let (next, label) = (start + ids.len(), label.clone());
            documents.push(InspectedDocument {
                start,
                ids,
                labels,
                file,
                line,
                has_targets,
                label,
            });
            start = next;
        }
        return Ok(documents);
    }
    let label = RowLabel::of(batch, RowColumn::Labels);
    let labels =
        if label.is_none() { column(RowColumn::Labels)?.unwrap_or_default() } else { Vec::new() };
    let ids = column(RowColumn::InputIds)?.ok_or_else(|| no_row("it has no `input_ids`"))?;
    let targets = column(RowColumn::TargetSeqLengths)?;
    let boundaries = Boundaries::of(batch).map_err(|_| no_row("its documents have no lengths"))?;
    let mut first = 0;
    let documents = boundaries.documents(0).into_iter().enumerate().map(|(number, tokens)| {
        let wanted = targets.as_ref().and_then(|targets| targets.get(number));
        let wanted = wanted.map_or(tokens.len(), |&wanted| usize::try_from(wanted).unwrap_or(0));
        let part = |values: &[i64], places: Range<usize>| {
            let end = places.end.min(values.len());
            values[places.start.min(end)..end].to_vec()
        };
        let (file, line) = of_document(number);
        let own = first..first + wanted;
        first = own.end;
        InspectedDocument {
            start: tokens.start,
            ids: part(&ids, tokens),
            labels: part(&labels, own),
            file,
            line,
            has_targets: targets.is_some(),
            label: label.clone(),
        }
    });
    Ok(documents.collect())
}

/// The beginnings of documents in the rows of a batch for a model. The rows are laid end to end, or padded to one width.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowBoundaries {
    /// The position of each token in its document.
    pub positions: Vec<i64>,
    /// The number of each token's document in its row, from 0; empty unless asked for.
    pub numbers: Vec<i64>,
    /// The places of the first tokens of documents.
    pub starts: Vec<i64>,
    /// 0, and the end of each document that has tokens.
    pub ends: Vec<i32>,
    /// The tokens of the longest document.
    pub longest: i64,
}

impl RowBoundaries {
    /// The boundaries of rows with documents of these lengths, none of them negative. With a `width` each row is filled up
    /// to it by one more document, which is padding.
    pub fn of(rows: &[&[i64]], width: Option<usize>, with_numbers: bool) -> Self {
        let tokens = match width {
            Some(width) => width * rows.len(),
            None => rows.iter().copied().flatten().map(|&length| unsigned(length)).sum(),
        };
        let mut built = Self { ends: vec![0], ..Self::default() };
        built.positions.reserve(tokens);
        built.numbers.reserve(if with_numbers { tokens } else { 0 });
        let mut number = 0;
        for lengths in rows {
            // Padding is one more document: its positions count up, and its tokens attend only to each other.
            let filling = width.map(|width| signed(width) - lengths.iter().sum::<i64>());
            for length in lengths.iter().copied().chain(filling) {
                built.push(length, number, with_numbers);
                number += 1;
            }
            number = if width.is_some() { 0 } else { number };
        }
        built
    }

    fn push(&mut self, length: i64, number: i64, with_number: bool) {
        if length > 0 {
            self.starts.push(signed(self.positions.len()));
            self.positions.extend(0..length);
            self.ends.push(i32::try_from(self.positions.len()).unwrap_or(i32::MAX));
            self.longest = self.longest.max(length);
        }
        if with_number {
            self.numbers.extend(std::iter::repeat_n(number, unsigned(length)));
        }
    }
}

fn signed(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> usize {
    usize::try_from(number).unwrap_or(0)
}
