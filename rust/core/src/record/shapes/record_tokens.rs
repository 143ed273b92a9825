//! Records that are tokenized already: ids, and the columns that mark the trained ones.
//!
//! [`read`] takes them from an object, [`row`] from the columns of a table; [`TokenLists::check`] has the rules for both.

use std::ops::Range;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type,
};

use super::flags;
use crate::config::Part;
use crate::record::parsing::fault::{Fault, wrong_type};
use crate::record::parsing::json;
use crate::record::parsing::value_access::ArrayItem;
use crate::record::shape::Shape;
use crate::report::ledger::Reason;
use fastpack_template::json::{Json, Map};

/// The label of a token that is not trained.
const IGNORED: i64 = -100;

/// The largest token id: rows hold ids as signed 32-bit integers.
const LARGEST_ID: i64 = i32::MAX as i64;

/// A run of trained tokens, and its weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainedRun {
    /// The first trained position.
    pub start: u32,
    /// The position after the last.
    pub end: u32,
    /// The factor of these tokens' loss.
    pub weight: f32,
}

/// The ids of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordTokens {
    /// The ids, without padding.
    pub ids: Vec<u32>,
    /// The trained runs, ascending and disjoint, where the record has them.
    pub trained: Option<Vec<TrainedRun>>,
}

/// The lists of a record, each with the name of its field, before their values are checked.
pub(crate) struct TokenLists<'s> {
    ids: (&'s str, Vec<i64>),
    labels: Option<(&'s str, Vec<i64>)>,
    mask: Option<(&'s str, Vec<i64>)>,
    loss_mask: Option<(&'s str, Vec<i64>)>,
    weights: Option<(&'s str, Vec<f32>)>,
    attention: Option<(&'s str, Vec<i64>)>,
}

/// The lists of an object.
pub(crate) fn read<'s>(record: &Map, shape: &'s Shape) -> Result<TokenLists<'s>, Fault> {
    let field = shape.field(Part::InputIds);
    let ids = numbers(record, field, AllowedItems::Numbers)?
        .ok_or_else(|| wrong_type(field, "a list of ids", None))?;
    let list = |part: Part, holds: AllowedItems| {
        let name = shape.field_of(part, record);
        Ok::<_, Fault>(numbers(record, name, holds)?.map(|list| (name, list)))
    };
    Ok(TokenLists {
        ids: (field, ids),
        labels: list(Part::Labels, AllowedItems::Numbers)?,
        mask: list(Part::AssistantMasks, AllowedItems::Marks)?,
        loss_mask: list(Part::LossMask, AllowedItems::Marks)?,
        weights: weights(record, shape)?,
        attention: list(Part::AttentionMask, AllowedItems::Marks)?,
    })
}

/// The lists of a row whose columns are lists of numbers; `None` where a column has another type, which
/// [`read`] then reports.
pub(crate) fn row<'s>(batch: &RecordBatch, row: usize, shape: &'s Shape) -> Option<TokenLists<'s>> {
    let cells = RowCells { batch, row };
    let list = |part: Part, holds: AllowedItems| {
        let Some((name, items, range)) = cells.list(part, shape)? else { return Some(None) };
        Some(Some((name, integers(items, range, holds)?)))
    };
    Some(TokenLists {
        ids: list(Part::InputIds, AllowedItems::Numbers)??,
        labels: list(Part::Labels, AllowedItems::Numbers)?,
        mask: list(Part::AssistantMasks, AllowedItems::Marks)?,
        loss_mask: list(Part::LossMask, AllowedItems::Marks)?,
        weights: match cells.list(Part::LossWeights, shape)? {
            Some((name, items, range)) => Some((name, reals(items, range)?)),
            None => None,
        },
        attention: list(Part::AttentionMask, AllowedItems::Marks)?,
    })
}

impl TokenLists<'_> {
    /// The ids without padding, and the trained runs; or the fault of the lists.
    pub(crate) fn check(self) -> Result<RecordTokens, Fault> {
        let Self { ids: (field, ids), labels, mask, loss_mask, weights, attention } = self;
        let lengths = [&labels, &mask, &loss_mask, &attention].into_iter().flatten();
        let lengths = lengths.map(|(name, list)| (*name, list.len()));
        let weighed = weights.iter().map(|(name, list)| (*name, list.len()));
        if let Some((name, length)) = lengths.chain(weighed).find(|(_, it)| *it != ids.len()) {
            let message = format!("`{name}` has {length} entries for {} tokens", ids.len());
            return Err(Fault::new(Reason::WrongType, message));
        }
        if let Some((name, labels)) = &labels {
            of_these_ids(name, labels, &ids)?;
        }
        for (name, marks) in [&mask, &loss_mask, &attention].into_iter().flatten() {
            zeros_and_ones(name, marks)?;
        }
        let real = match &attention {
            Some((name, mask)) => unpadded(name, mask)?,
            None => 0..ids.len(),
        };
        let real_ids = &ids[real.clone()];
        if real_ids.is_empty() {
            return Err(Fault::new(Reason::Empty, format!("`{field}` holds no token")));
        }
        if let Some(id) = real_ids.iter().find(|id| !(0..=LARGEST_ID).contains(*id)) {
            let message = format!("`{field}` holds {id}, which is no token id");
            return Err(Fault::new(Reason::WrongType, message));
        }
        if u32::try_from(real_ids.len()).is_err() {
            let tokens = real_ids.len();
            let message = format!("`{field}` holds {tokens} tokens, more than a row can hold");
            return Err(Fault::new(Reason::Tokenizer, message));
        }
        if let Some((name, marks)) = &loss_mask {
            says_the_same(name, marks, labels.as_ref(), mask.as_ref(), &real)?;
        }
        let mask = mask.or(loss_mask);
        let weight = |at: usize| weights.as_ref().map_or(1.0, |(_, weights)| weights[at]);
        let trained = match (&labels, &mask) {
            (Some((_, labels)), _) => {
                Some(runs(real, |at| if labels[at] == IGNORED { 0.0 } else { weight(at) }))
            }
            (None, Some((_, mask))) => {
                Some(runs(real, |at| if mask[at] == 0 { 0.0 } else { weight(at) }))
            }
            (None, None) => weights.is_some().then(|| runs(real, weight)),
        };
        let known = |id: &i64| u32::try_from(*id).expect("an id that was looked at above");
        Ok(RecordTokens { ids: real_ids.iter().map(known).collect(), trained })
    }
}

/// Refuses labels that are neither the token in their place nor -100.
fn of_these_ids(name: &str, labels: &[i64], ids: &[i64]) -> Result<(), Fault> {
    let differs = |(label, id): (&i64, &i64)| *label != IGNORED && label != id;
    let Some(at) = labels.iter().zip(ids).position(differs) else { return Ok(()) };
    let message = format!(
        "`{name}` has {} at position {at} where the token is {}; it must be the token or {IGNORED}, not shifted",
        labels[at], ids[at],
    );
    Err(Fault::new(Reason::WrongType, message))
}

/// Refuses a mask that differs from the labels or from another mask of the same ids.
fn says_the_same(
    name: &str,
    marks: &[i64],
    labels: Option<&(&str, Vec<i64>)>,
    mask: Option<&(&str, Vec<i64>)>,
    real: &Range<usize>,
) -> Result<(), Fault> {
    let differs = |list: &[i64], untrained: i64| {
        real.clone().find(|&at| (list[at] != untrained) != (marks[at] == 1))
    };
    let by_labels = labels.map(|(other, list)| (other, differs(list, IGNORED)));
    let by_mask = mask.map(|(other, list)| (other, differs(list, 0)));
    for (other, differs) in by_labels.into_iter().chain(by_mask) {
        if let Some(at) = differs {
            let message = format!(
                "`{name}` is {} at position {at}, where `{other}` says the opposite; give one of the two",
                marks[at]
            );
            return Err(Fault::new(Reason::WrongType, message));
        }
    }
    Ok(())
}

/// Refuses a mask with values other than 0 and 1.
fn zeros_and_ones(name: &str, mask: &[i64]) -> Result<(), Fault> {
    let Some(at) = mask.iter().position(|mark| !(0..=1).contains(mark)) else { return Ok(()) };
    let message = format!("`{name}` has {} at position {at}; a mask holds 0 and 1 alone", mask[at]);
    Err(Fault::new(Reason::WrongType, message))
}

/// The range of tokens that an attention mask does not mark as padding.
fn unpadded(name: &str, mask: &[i64]) -> Result<Range<usize>, Fault> {
    let start = mask.iter().position(|mark| *mark != 0).unwrap_or(mask.len());
    let end = mask.iter().rposition(|mark| *mark != 0).map_or(start, |last| last + 1);
    if mask[start..end].contains(&0) {
        let message = format!(
            "`{name}` leaves out tokens between others; only padding at the ends can be left out"
        );
        return Err(Fault::new(Reason::WrongType, message));
    }
    Ok(start..end)
}

/// The runs of positions in `range`, counted from its start, whose tokens have a weight.
fn runs(range: Range<usize>, weight: impl Fn(usize) -> f32) -> Vec<TrainedRun> {
    let mut runs: Vec<TrainedRun> = Vec::new();
    for (at, weight) in (0..).zip(range.map(weight)) {
        match runs.last_mut() {
            _ if weight <= 0.0 => {}
            Some(run) if run.end == at && run.weight.to_bits() == weight.to_bits() => run.end += 1,
            _ => runs.push(TrainedRun { start: at, end: at + 1, weight }),
        }
    }
    runs
}

/// The values that a list of whole numbers may hold besides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AllowedItems {
    /// Nothing.
    Numbers,
    /// Booleans, read as zeros and ones.
    Marks,
}

/// A list of whole numbers, or JSON text of one; `None` where null or absent.
fn numbers(record: &Map, field: &str, holds: AllowedItems) -> Result<Option<Vec<i64>>, Fault> {
    const WANTED: &str = "a list of whole numbers";
    let value = json::unfold(record, field)?;
    let list = match &value {
        None | Some(Json::Null) => return Ok(None),
        Some(Json::List(list)) => list,
        other => return Err(wrong_type(field, WANTED, other.as_ref())),
    };
    let numbers = list.iter().map(|item| match item {
        Json::Int(number) => Ok(*number),
        Json::Bool(mark) if holds == AllowedItems::Marks => Ok(i64::from(*mark)),
        other => Err(wrong_type(field, WANTED, Some(other))),
    });
    numbers.collect::<Result<_, _>>().map(Some)
}

/// The weights of the ids, if the record has any.
fn weights<'s>(record: &Map, shape: &'s Shape) -> Result<Option<(&'s str, Vec<f32>)>, Fault> {
    let field = shape.field(Part::LossWeights);
    let value = json::unfold(record, field)?;
    let list = match &value {
        None | Some(Json::Null) => return Ok(None),
        Some(Json::List(list)) => list,
        other => return Err(wrong_type(field, "a list of numbers", other.as_ref())),
    };
    let weight =
        |(at, value)| flags::weight(value).map_err(|fault| fault.at(&format!("{field}[{at}]")));
    let weights = list.iter().enumerate().map(weight).collect::<Result<_, _>>()?;
    Ok(Some((field, weights)))
}

/// The cells of a row.
#[derive(Clone, Copy)]
struct RowCells<'b> {
    batch: &'b RecordBatch,
    row: usize,
}

impl<'b> RowCells<'b> {
    /// The list of a part, with the name of its column, if the row has one. Fails with `None` where a column
    /// of the part is no list, or two have its name.
    #[expect(clippy::type_complexity, reason = "a list is an array and a range of it")]
    fn list<'s>(
        self,
        part: Part,
        shape: &'s Shape,
    ) -> Option<Option<(&'s str, &'b dyn Array, Range<usize>)>> {
        for field in shape.fields(part) {
            let columns = self.batch.schema_ref().fields().iter().zip(self.batch.columns());
            let mut named = columns.filter(|(column, _)| column.name() == field);
            let Some((column, array)) = named.next() else { continue };
            if named.next().is_some() {
                return None;
            }
            if array.is_null(self.row) {
                continue;
            }
            let (items, range) = ArrayItem { field: column, array, at: self.row }.list()?;
            return Some(Some((field, items, range)));
        }
        Some(None)
    }
}

/// The whole numbers in a range of an array; `None` where one is null, or the array has another type.
fn integers(array: &dyn Array, range: Range<usize>, holds: AllowedItems) -> Option<Vec<i64>> {
    if !is_full(array, &range) {
        return None;
    }
    Some(match array.data_type() {
        DataType::Int8 => widened::<Int8Type>(array, range),
        DataType::Int16 => widened::<Int16Type>(array, range),
        DataType::Int32 => widened::<Int32Type>(array, range),
        DataType::Int64 => widened::<Int64Type>(array, range),
        DataType::UInt8 => widened::<UInt8Type>(array, range),
        DataType::UInt16 => widened::<UInt16Type>(array, range),
        DataType::UInt32 => widened::<UInt32Type>(array, range),
        DataType::Boolean if holds == AllowedItems::Marks => {
            let marks = array.as_boolean();
            range.map(|at| i64::from(marks.value(at))).collect()
        }
        _ => return None,
    })
}

fn widened<T: ArrowPrimitiveType<Native: Into<i64>>>(
    array: &dyn Array,
    range: Range<usize>,
) -> Vec<i64> {
    array.as_primitive::<T>().values()[range].iter().map(|&number| number.into()).collect()
}

/// The weights in a range of an array; `None` where one is no weight.
fn reals(array: &dyn Array, range: Range<usize>) -> Option<Vec<f32>> {
    if !is_full(array, &range) {
        return None;
    }
    let weights: Vec<f32> = match array.data_type() {
        DataType::Float32 => array.as_primitive::<Float32Type>().values()[range].to_vec(),
        #[expect(clippy::cast_possible_truncation, reason = "a weight needs no more than 32 bits")]
        DataType::Float64 => array.as_primitive::<Float64Type>().values()[range]
            .iter()
            .map(|&weight| weight as f32)
            .collect(),
        _ => return None,
    };
    weights.iter().all(|&weight| flags::is_weight(weight)).then_some(weights)
}

/// True if no value of an array in `range` is null.
fn is_full(array: &dyn Array, range: &Range<usize>) -> bool {
    array.null_count() == 0 || range.clone().all(|at| array.is_valid(at))
}
