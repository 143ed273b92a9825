//! [`check_rows`]: the rules that packed rows keep.

use std::collections::BTreeMap;

use arrow::array::Array;
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int64Type, Schema};
use arrow::record_batch::RecordBatch;

use super::lists::{Lists, NumberLists, numbers, type_name};
use super::written_rows::{ANSWERS, Boundaries, PackedOptions};
use crate::config::{ColumnUnit, ObjectiveName, RowColumn};
use crate::error::{Error, Result};
use crate::objective::UNTRAINED;
use crate::util::control::Control;

/// The first row that breaks each rule, and the documents of the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckedRows {
    /// The row and a message for each broken rule.
    pub problems: Vec<(usize, String)>,
    /// The documents and tokens; `None` if no column says where documents begin.
    pub counts: Option<(u64, u64)>,
}

/// A rule of rows. Problems are told in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RowRule {
    Token(RowColumn),
    MaxLength(RowColumn),
    MaxPictures,
    Class,
    Truths,
    Truth,
    Values(RowColumn),
    Boundaries,
    Length,
    Lengths,
    FirstPosition,
    Position,
    Number,
    MaxTargets,
    TargetLengths,
    EdgeLabel,
    Label,
    Weight,
}

/// Checks rows in the full layout.
///
/// Fails with [`Error::Rows`] if a column holds no lists of numbers, or the rows are no packed rows.
pub fn check_rows(
    schema: &Schema,
    batches: &[RecordBatch],
    options: &PackedOptions,
    control: &Control,
) -> Result<CheckedRows> {
    let has = |column: RowColumn| schema.field_with_name(column.name()).is_ok();
    let is_preference = options.objective == Some(ObjectiveName::Preference);
    if !is_preference && !has(RowColumn::InputIds) {
        let names: Vec<String> =
            schema.fields().iter().map(|field| format!("`{}`", field.name())).collect();
        let names = if names.is_empty() { "no columns".to_owned() } else { names.join(", ") };
        let message = format!("no column `input_ids`, only {names}: these are no packed rows");
        return Err(Error::Rows(message));
    }
    let is_bounded =
        options.has_one_document() || has(RowColumn::SeqLengths) || has(RowColumn::PositionIds);
    let mut check = BrokenRules { options, found: BTreeMap::new(), first_row: 0 };
    let (mut documents, mut tokens) = (0, 0);
    let most_truths = most_truths(batches, options);
    for batch in batches {
        control.tick()?;
        let columns = RuleColumns::of(batch, options)?;
        if options.objective == Some(ObjectiveName::MultiLabel) {
            check.truths(batch, most_truths)?;
        } else if options.objective == Some(ObjectiveName::Classification) {
            check.classes(batch)?;
        }
        for row in 0..batch.num_rows() {
            check.row(&columns, row);
            let in_row = columns.boundaries.documents(row);
            documents += if options.has_one_document() { 1 } else { in_row.len() as u64 };
            tokens += columns.tokens(row) as u64;
        }
        check.first_row += batch.num_rows();
    }
    let counts = is_bounded.then_some((documents, tokens));
    Ok(CheckedRows { problems: check.found.into_values().collect(), counts })
}

/// The columns that rules are about.
struct RuleColumns {
    boundaries: Boundaries,
    /// The columns with a value for each token.
    per_token: Vec<(RowColumn, Lists)>,
    answers: Vec<(RowColumn, NumberLists<Int64Type>)>,
    pictures: Option<Lists>,
    labels: Option<NumberLists<Int64Type>>,
    weights: Option<NumberLists<Float32Type>>,
    target_lengths: Option<NumberLists<Int64Type>>,
}

impl RuleColumns {
    fn of(batch: &RecordBatch, options: &PackedOptions) -> Result<Self> {
        let one_document = options.has_one_document();
        let is_span = options.objective == Some(ObjectiveName::Span);
        let mut per_token = Vec::new();
        for &(name, column) in RowColumn::WORDS {
            // The labels of spans belong to the targets, and a class to the whole row.
            let is_other = column == RowColumn::Labels && (one_document || is_span);
            if column.usual().1 == ColumnUnit::Token && column != RowColumn::InputIds && !is_other {
                per_token.extend(Lists::of(batch, name)?.map(|lists| (column, lists)));
            }
        }
        let mut answers = Vec::new();
        for column in ANSWERS {
            answers.extend(NumberLists::of(batch, column.name())?.map(|lists| (column, lists)));
        }
        let labels =
            if one_document { None } else { NumberLists::of(batch, RowColumn::Labels.name())? };
        Ok(Self {
            boundaries: Boundaries::of(batch)?,
            per_token,
            answers,
            pictures: batch.column_by_name(RowColumn::Images.name()).and_then(Lists::split),
            labels,
            weights: NumberLists::of(batch, RowColumn::LossWeights.name())?,
            target_lengths: NumberLists::of(batch, RowColumn::TargetSeqLengths.name())?,
        })
    }

    /// The tokens of a row.
    fn tokens(&self, row: usize) -> usize {
        let ids = self.boundaries.ids.as_ref().map_or(0, |ids| ids.row(row).len());
        ids + self.answers.iter().map(|(_, answer)| answer.row(row).len()).sum::<usize>()
    }
}

/// The rules that are broken so far.
struct BrokenRules<'a> {
    options: &'a PackedOptions,
    found: BTreeMap<RowRule, (usize, String)>,
    first_row: usize,
}

impl BrokenRules<'_> {
    fn broken(&mut self, rule: RowRule, row: usize, says: impl FnOnce() -> String) {
        let row = self.first_row + row;
        self.found.entry(rule).or_insert_with(|| (row, says()));
    }

    fn row(&mut self, columns: &RuleColumns, row: usize) {
        let mut prompt = 0;
        for (column, answer) in &columns.answers {
            let ids = answer.row(row);
            self.ids(*column, ids, prompt, row);
            prompt = if *column == RowColumn::PromptIds { ids.len() } else { prompt };
        }
        let Some(ids) = columns.boundaries.ids.as_ref().map(|ids| ids.row(row)) else { return };
        self.ids(RowColumn::InputIds, ids, 0, row);
        let mut fits = true;
        for (column, lists) in &columns.per_token {
            let values = lists.len(row);
            if values != ids.len() {
                fits = false;
                self.broken(RowRule::Values(*column), row, || {
                    let name = column.name();
                    format!("column `{name}` has {values} values, but `input_ids` {}", ids.len())
                });
            }
        }
        if let (Some(most), Some(pictures)) = (self.options.max_images_per_pack, &columns.pictures)
            && pictures.len(row) as u64 > most
        {
            self.broken(RowRule::MaxPictures, row, || {
                format!(
                    "column `images` has more than {most} pictures, the `max_images_per_pack` of these rows"
                )
            });
        }
        if self.options.has_one_document() {
            return;
        }
        let is_sound = self.boundaries(&columns.boundaries, ids, row, fits);
        let Some(labels) = columns.labels.as_ref().map(|labels| labels.row(row)) else { return };
        match self.options.objective {
            Some(ObjectiveName::Span) => {
                self.numbers(labels, row);
                let lengths = columns.target_lengths.as_ref().map(|lengths| lengths.row(row));
                self.targets(labels.len(), lengths, row);
            }
            Some(ObjectiveName::Mlm | ObjectiveName::Function) => self.numbers(labels, row),
            _ if is_sound => {
                self.labels(&columns.boundaries, ids, labels, row);
                if let Some(weights) = &columns.weights {
                    self.weights(weights.row(row), labels, row);
                }
            }
            _ => {}
        }
    }

    /// Checks tokens, and that a row has not too many of them after so many others.
    fn ids(&mut self, column: RowColumn, ids: &[i64], others: usize, row: usize) {
        let name = column.name();
        if let Some(id) = ids.iter().find(|id| **id < 0) {
            self.broken(RowRule::Token(column), row, || {
                format!("column `{name}` has the token {id}")
            });
        }
        if let Some(most) = self.options.max_length
            && (ids.len() + others) as u64 > most
        {
            self.broken(RowRule::MaxLength(column), row, || too_many(name, "max_length", most));
        }
    }

    /// Checks where documents begin; `fits` says whether the columns have a value for each token. Returns whether all is
    /// well.
    fn boundaries(&mut self, columns: &Boundaries, ids: &[i64], row: usize, fits: bool) -> bool {
        let (lengths, positions) = (&columns.lengths, &columns.positions);
        if lengths.is_none() && positions.is_none() {
            let says = "neither `seq_lengths` nor `position_ids` says where documents begin";
            self.broken(RowRule::Boundaries, row, || says.to_owned());
            return false;
        }
        if let Some(lengths) = lengths.as_ref().map(|lengths| lengths.row(row)) {
            if let Some(length) = lengths.iter().find(|length| **length < 1) {
                self.broken(RowRule::Length, row, || {
                    format!("column `seq_lengths` has {length}, which is no length")
                });
            }
            let total: i64 = lengths.iter().sum();
            if usize::try_from(total) != Ok(ids.len()) {
                self.broken(RowRule::Lengths, row, || {
                    let tokens = ids.len();
                    format!(
                        "column `seq_lengths` comes to {total}, but `input_ids` has {tokens} tokens"
                    )
                });
                return false;
            }
        }
        let Some(positions) = positions.as_ref().map(|it| it.row(row)).filter(|_| fits) else {
            return fits;
        };
        if let Some(first) = positions.first().filter(|first| **first != 0) {
            self.broken(RowRule::FirstPosition, row, || {
                format!("column `position_ids` begins at {first}, not at 0")
            });
            return false;
        }
        let mut documents = columns.documents(row).into_iter();
        if !documents.all(|tokens| positions[tokens].iter().zip(0..).all(|(&it, at)| it == at)) {
            let what = if lengths.is_some() {
                "restart where `seq_lengths` says"
            } else {
                "count up by 1"
            };
            self.broken(RowRule::Position, row, || {
                format!("column `position_ids` does not {what}")
            });
        }
        true
    }

    /// Checks labels that are tokens, or none.
    fn numbers(&mut self, labels: &[i64], row: usize) {
        if let Some(label) = labels.iter().find(|label| **label < 0 && !is_untrained(**label)) {
            self.broken(RowRule::Number, row, || {
                format!("column `labels` has {label}, which is no token")
            });
        }
    }

    fn targets(&mut self, targets: usize, lengths: Option<&[i64]>, row: usize) {
        if let Some(most) = self.options.max_target_length
            && targets as u64 > most
        {
            self.broken(RowRule::MaxTargets, row, || {
                too_many(RowColumn::Labels.name(), "max_target_length", most)
            });
        }
        if lengths.is_some_and(|it| usize::try_from(it.iter().sum::<i64>()) != Ok(targets)) {
            self.broken(RowRule::TargetLengths, row, || {
                format!(
                    "column `target_seq_lengths` does not come to the {targets} tokens of `labels`"
                )
            });
        }
    }

    /// Checks that labels are the tokens, or if shifted those behind them, and that the token of each document that nothing
    /// predicts, or that predicts nothing, has none.
    fn labels(&mut self, columns: &Boundaries, ids: &[i64], labels: &[i64], row: usize) {
        let is_shifted = self.options.shift_labels;
        for tokens in columns.documents(row).into_iter().filter(|tokens| !tokens.is_empty()) {
            let edge = if is_shifted { tokens.end - 1 } else { tokens.start };
            for at in tokens.filter(|&at| !is_untrained(labels[at])) {
                let label = labels[at];
                let token = ids.get(at + usize::from(is_shifted)).copied();
                if at == edge {
                    self.broken(RowRule::EdgeLabel, row, || {
                        let which = if is_shifted { "last" } else { "first" };
                        format!(
                            "column `labels` has {label} at the {which} token of a document, where -100 belongs"
                        )
                    });
                } else if token != Some(label) {
                    self.broken(RowRule::Label, row, || {
                        let token = token.unwrap_or_default();
                        format!(
                            "column `labels` has {label} where the token is {token}, and not -100"
                        )
                    });
                }
            }
        }
    }

    fn weights(&mut self, weights: &[f32], labels: &[i64], row: usize) {
        let is_wrong = |&(&weight, &label): &(&f32, &i64)| {
            !weight.is_finite() || weight < 0.0 || is_untrained(label) && weight != 0.0
        };
        if let Some((weight, label)) = weights.iter().zip(labels).find(is_wrong) {
            self.broken(RowRule::Weight, row, || {
                let weight = weight.to_string().to_lowercase();
                format!("column `loss_weights` has {weight} for the label {label}")
            });
        }
    }

    /// Checks labels that are classes.
    fn classes(&mut self, batch: &RecordBatch) -> Result<()> {
        let Some(labels) = batch.column_by_name(RowColumn::Labels.name()) else { return Ok(()) };
        if !labels.data_type().is_integer() || labels.null_count() > 0 {
            return Err(not_labels(labels.data_type(), "an integer"));
        }
        let classes = numbers::<Int64Type>(labels)?;
        for (row, &class) in classes.values().iter().enumerate() {
            if class < 0 && !is_untrained(class) {
                self.broken(RowRule::Class, row, || {
                    format!("column `labels` has {class}, which is no class")
                });
            }
        }
        Ok(())
    }

    /// Checks labels with a truth for each of `most` classes.
    fn truths(&mut self, batch: &RecordBatch, most: usize) -> Result<()> {
        let Some(labels) = batch.column_by_name(RowColumn::Labels.name()) else { return Ok(()) };
        let wrong = || not_labels(labels.data_type(), "a list of truths");
        // JSON Lines do not tell 1 from 1.0.
        let is_number = |lists: &Lists| lists.are_numbers() && labels.null_count() == 0;
        let lists = Lists::split(labels).filter(is_number).ok_or_else(wrong)?;
        for row in 0..lists.rows() {
            let truths = lists.numbers::<Float64Type>(row..row + 1)?;
            if !truths.is_empty() && truths.len() != most {
                let values = truths.len();
                self.broken(RowRule::Truths, row, || {
                    format!("column `labels` has {values} values, others have {most}")
                });
            }
            let is_no_truth = |truth: &&f64| ![0.0, 1.0].contains(*truth);
            if let Some(truth) = truths.values().iter().find(is_no_truth) {
                self.broken(RowRule::Truth, row, || {
                    format!("column `labels` has {truth}, which is neither 0 nor 1")
                });
            }
        }
        Ok(())
    }
}

/// The most truths of a row.
fn most_truths(batches: &[RecordBatch], options: &PackedOptions) -> usize {
    if options.objective != Some(ObjectiveName::MultiLabel) {
        return 0;
    }
    let labels = batches.iter().filter_map(|batch| batch.column_by_name(RowColumn::Labels.name()));
    let sizes = labels
        .filter_map(Lists::split)
        .filter_map(|lists| (0..lists.rows()).map(move |row| lists.len(row)).max());
    sizes.max().unwrap_or(0)
}

fn too_many(column: &str, option: &str, most: u64) -> String {
    format!("column `{column}` has more than {most} tokens, the `{option}` of these rows")
}

fn not_labels(kind: &DataType, wanted: &str) -> Error {
    let kind = type_name(kind);
    Error::Rows(format!(
        "column `labels` is {kind}, where rows of this objective have {wanted}, without nulls"
    ))
}

fn is_untrained(label: i64) -> bool {
    label == i64::from(UNTRAINED)
}
