//! Rows that are tokenized already to documents.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, AsArray, LargeListArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float32Type, Int64Type};

use super::{Documents, INPUTS, Run};
use crate::config::{OnBadRecord, TrainOn};
use crate::error::{Error, Result};
use crate::ledger::{Ledger, Reason};
use crate::record::Fault;

/// What errors call a table that came from memory.
pub const TABLE: &str = "<table>";

/// The label of a token that is not trained.
const IGNORED: i64 = -100;

/// Columns of zeros and ones that tell which tokens are trained, where there are no labels.
const MASKS: [&str; 2] = ["assistant_masks", "completion_mask"];

/// A column of zeros where a row is filled up.
const ATTENTION_MASK: &str = "attention_mask";

/// The names of the columns that are read.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// The ids.
    pub input_ids: &'static str,
    /// The ids where trained, -100 elsewhere.
    pub labels: &'static str,
    /// What the loss of each id is multiplied by.
    pub loss_weights: &'static str,
}

/// The documents of one batch, `first_row` rows into the table.
///
/// A row's trained tokens are those with a label, or with a 1 in its mask; all of them where the table has
/// neither, and with [`TrainOn::All`]. What weighs nothing is not trained. Padding at the ends, by the attention mask, is
/// left out. Rows without a token or a label are counted in `ledger`, and so are those that are no documents, or the first
/// of them is the error, as `on_bad_record` says.
pub fn read(
    batch: &RecordBatch,
    columns: &Columns,
    (train_on, on_bad_record): (TrainOn, OnBadRecord),
    first_row: u64,
    ledger: &mut Ledger,
) -> Result<Documents> {
    let rows = Rows::of(batch, columns, train_on)?;
    let mut documents = Documents::new(Arc::from(Path::new(TABLE)), &[INPUTS]);
    for row in 0..batch.num_rows() {
        let line = first_row + row as u64 + 1;
        let (tokens, trained) = match rows.row(row) {
            Ok(found) => found,
            Err(reason) => {
                let (fault, origin) =
                    (Fault::new(Reason::WrongType, reason), documents.origin_of(line));
                match on_bad_record {
                    OnBadRecord::Error => return Err(fault.into_error(origin)),
                    OnBadRecord::Skip => ledger.bad_record(fault.into_place(origin)),
                }
                continue;
            }
        };
        let length = tokens.len() as u64;
        ledger.read.add(length);
        if tokens.is_empty() {
            ledger.drop_document(Reason::Empty, 0, || documents.origin_of(line));
        } else if trained.last().is_none_or(|run| run.end <= 1) {
            let origin = || documents.origin_of(line);
            ledger.drop_document(Reason::NoTrainedToken, length, origin);
        } else {
            documents.push(&[&tokens], trained, line);
        }
    }
    Ok(documents)
}

/// The columns of a batch.
struct Rows<'c> {
    columns: &'c Columns,
    ids: Lists,
    marks: Marks,
    weights: Option<LargeListArray>,
    attention: Option<Lists>,
}

impl<'c> Rows<'c> {
    fn of(batch: &RecordBatch, columns: &'c Columns, train_on: TrainOn) -> Result<Self> {
        let name = columns.input_ids;
        let ids = Lists::of(batch, name)?
            .ok_or_else(|| Error::option("table", format!("must have a column `{name}`")))?;
        let marks = match train_on {
            TrainOn::All => Marks::None,
            _ => Marks::of(batch, columns.labels)?,
        };
        if train_on == TrainOn::Assistant && matches!(marks, Marks::None) {
            let reason = format!(
                "is \"assistant\", but the table has neither `{}` nor `{}`",
                columns.labels,
                MASKS.join("` nor `"),
            );
            return Err(Error::option("train_on", reason));
        }
        let weights = match train_on {
            TrainOn::All => None,
            _ => weights(batch, columns.loss_weights)?,
        };
        Ok(Self { columns, ids, marks, weights, attention: Lists::of(batch, ATTENTION_MASK)? })
    }

    /// The tokens of a row and which of them are trained, or what is wrong with it.
    fn row(&self, row: usize) -> std::result::Result<(Vec<u32>, Vec<Run>), String> {
        let name = self.columns.input_ids;
        let ids = self.ids.row(row)?;
        let real = match &self.attention {
            Some(mask) => unpadded(mask.row(row)?, ids.len())?,
            None => 0..ids.len(),
        };
        let tokens = ids[real.clone()]
            .iter()
            .map(|&id| u32::try_from(id).ok().filter(|&id| i32::try_from(id).is_ok()))
            .collect::<Option<Vec<u32>>>()
            .ok_or_else(|| format!("`{name}` holds a number that is no token id"))?;
        if u32::try_from(tokens.len()).is_err() {
            return Err(format!("`{name}` holds {} tokens, more than a row can", tokens.len()));
        }
        if tokens.is_empty() {
            return Ok((tokens, Vec::new()));
        }
        let mut trained = self.marks.trained(row, ids)?;
        if let Some(weights) = &self.weights {
            trained = weigh(&trained, weights, row, self.columns.loss_weights, ids.len())?;
        }
        Ok((tokens, within(trained, &real)))
    }
}

/// A column of lists of integers.
struct Lists {
    name: String,
    lists: LargeListArray,
}

impl Lists {
    fn of(batch: &RecordBatch, name: &str) -> Result<Option<Self>> {
        let Some(column) = batch.column_by_name(name) else { return Ok(None) };
        let wanted = DataType::LargeList(Arc::new(Field::new_list_field(DataType::Int64, true)));
        let integers = match column.data_type() {
            DataType::List(field)
            | DataType::LargeList(field)
            | DataType::FixedSizeList(field, _) => {
                field.data_type().is_integer() || *field.data_type() == DataType::Boolean
            }
            _ => false,
        };
        if !integers {
            let reason =
                format!("`{name}` must be lists of integers, found {}", column.data_type());
            return Err(Error::option("table", reason));
        }
        let lists = cast(column, &wanted)?.as_list::<i64>().clone();
        Ok(Some(Self { name: name.to_owned(), lists }))
    }

    /// The numbers of one row, or what is wrong with it.
    fn row(&self, row: usize) -> std::result::Result<&[i64], String> {
        let offsets = self.lists.value_offsets();
        let bound = |at: usize| usize::try_from(offsets[at]).expect("an offset into memory");
        let (start, end) = (bound(row), bound(row + 1));
        let values = self.lists.values();
        if self.lists.is_null(row) || (start..end).any(|at| values.is_null(at)) {
            return Err(format!("`{}` is null or holds a null", self.name));
        }
        Ok(&values.as_primitive::<Int64Type>().values()[start..end])
    }
}

/// A column of lists of weights, if there is one.
fn weights(batch: &RecordBatch, name: &str) -> Result<Option<LargeListArray>> {
    let Some(column) = batch.column_by_name(name) else { return Ok(None) };
    let numbers = match column.data_type() {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            field.data_type().is_numeric()
        }
        _ => false,
    };
    if !numbers {
        let reason = format!("`{name}` must be lists of numbers, found {}", column.data_type());
        return Err(Error::option("table", reason));
    }
    let wanted = DataType::LargeList(Arc::new(Field::new_list_field(DataType::Float32, true)));
    Ok(Some(cast(column, &wanted)?.as_list::<i64>().clone()))
}

/// The runs with their weights, or what is wrong with these.
fn weigh(
    runs: &[Run],
    weights: &LargeListArray,
    row: usize,
    name: &str,
    tokens: usize,
) -> std::result::Result<Vec<Run>, String> {
    if weights.is_null(row) {
        return Err(format!("`{name}` is null"));
    }
    let weights = weights.value(row);
    let weights = weights.as_primitive::<Float32Type>();
    if weights.len() != tokens {
        return Err(format!("`{name}` has {} entries for {tokens} tokens", weights.len()));
    }
    if weights.null_count() > 0 || weights.values().iter().any(|it| !it.is_finite() || *it < 0.0) {
        return Err(format!("`{name}` holds something else than numbers from 0 on"));
    }
    let mut weighed: Vec<Run> = Vec::new();
    for at in runs.iter().flat_map(|run| run.start..run.end) {
        let weight = weights.value(at as usize);
        match weighed.last_mut() {
            _ if weight == 0.0 => {}
            Some(run) if run.end == at && run.weight.to_bits() == weight.to_bits() => run.end += 1,
            _ => weighed.push(Run { start: at, end: at + 1, weight }),
        }
    }
    Ok(weighed)
}

/// Where the tokens are that an attention mask over so many does not call padding, or what is wrong with it.
fn unpadded(mask: &[i64], tokens: usize) -> std::result::Result<Range<usize>, String> {
    if mask.len() != tokens {
        return Err(format!("`{ATTENTION_MASK}` has {} entries for {tokens} tokens", mask.len()));
    }
    let start = mask.iter().position(|mark| *mark != 0).unwrap_or(tokens);
    let end = mask.iter().rposition(|mark| *mark != 0).map_or(start, |last| last + 1);
    if mask[start..end].contains(&0) {
        return Err(format!(
            "`{ATTENTION_MASK}` leaves out tokens between others; only padding at the ends can be left out"
        ));
    }
    Ok(start..end)
}

/// The parts of runs that lie in a stretch, counted from where it begins.
fn within(mut runs: Vec<Run>, stretch: &Range<usize>) -> Vec<Run> {
    let at = |place: u32| {
        let place = (place as usize).clamp(stretch.start, stretch.end) - stretch.start;
        u32::try_from(place).expect("no further than it was")
    };
    for run in &mut runs {
        (run.start, run.end) = (at(run.start), at(run.end));
    }
    runs.retain(|run| run.start < run.end);
    runs
}

/// What tells which tokens are trained.
enum Marks {
    None,
    Labels(&'static str, Lists),
    Mask(&'static str, Lists),
}

impl Marks {
    fn of(batch: &RecordBatch, labels: &'static str) -> Result<Self> {
        if let Some(lists) = Lists::of(batch, labels)? {
            return Ok(Self::Labels(labels, lists));
        }
        for name in MASKS {
            if let Some(mask) = Lists::of(batch, name)? {
                return Ok(Self::Mask(name, mask));
            }
        }
        Ok(Self::None)
    }

    /// The trained runs of a row, or what is wrong with it.
    fn trained(&self, row: usize, ids: &[i64]) -> std::result::Result<Vec<Run>, String> {
        let (name, marks) = match self {
            Self::None => return Ok(runs(ids.iter().map(|_| true))),
            Self::Labels(name, lists) | Self::Mask(name, lists) => (*name, lists.row(row)?),
        };
        if marks.len() != ids.len() {
            return Err(format!("`{name}` has {} entries for {} tokens", marks.len(), ids.len()));
        }
        if matches!(self, Self::Mask(..)) {
            return Ok(runs(marks.iter().map(|&mark| mark != 0)));
        }
        let differs =
            marks.iter().zip(ids).position(|(&label, id)| label != IGNORED && label != *id);
        if let Some(at) = differs {
            return Err(format!(
                "`{name}` has {} at position {at} where the token is {}; it must be the token or {IGNORED}, not shifted",
                marks[at], ids[at],
            ));
        }
        Ok(runs(marks.iter().map(|&label| label != IGNORED)))
    }
}

/// The stretches of true.
fn runs(marks: impl Iterator<Item = bool>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (at, _) in marks.enumerate().filter(|(_, marked)| *marked) {
        let at = u32::try_from(at).expect("a row of fewer than 2^32 tokens");
        match runs.last_mut() {
            Some(run) if run.end == at => run.end += 1,
            _ => runs.push(Run { start: at, end: at + 1, weight: 1.0 }),
        }
    }
    runs
}
