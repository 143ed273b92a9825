//! [`convert_documents`]: documents as a function of the caller makes them, for the objective `function`.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float32Builder, Int32Builder, ListArray, ListBuilder, PrimitiveArray,
    RecordBatch, UInt64Array,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Field, Float32Type, Int32Type};

use crate::config::RowColumn;
use crate::document::{Document, Documents, INPUTS, MADE_LABELS, MADE_TYPES, TrainedRun};
use crate::error::{Error, Origin, Result};
use crate::objective::UNTRAINED;

/// Makes documents: takes their ids, labels, weights and keys, and returns ids and labels for each.
pub type DocumentFunction = Box<dyn Fn(RecordBatch) -> Result<RecordBatch> + Send + Sync>;

/// The option that gives the function.
const OPTION: &str = "objective.function";

/// The columns that the function may return.
const RETURNED: [RowColumn; 4] =
    [RowColumn::InputIds, RowColumn::Labels, RowColumn::LossWeights, RowColumn::TokenTypeIds];

/// The documents that a function makes of `documents`. An error names a document by the place that `numbered` makes of
/// its own.
pub(in crate::pipeline) fn convert_documents(
    function: &DocumentFunction,
    documents: &Documents,
    numbered: impl Fn(Origin) -> Result<Origin>,
) -> Result<Documents> {
    let names = [INPUTS, MADE_LABELS, MADE_TYPES];
    let mut converted =
        Documents::new(Arc::clone(documents.path()), &names).of_pass(documents.pass());
    if documents.is_empty() {
        return Ok(converted);
    }
    let returned = function(as_batch(documents))?;
    let columns = Returned::of(&returned, documents.len())?;
    for (at, document) in documents.iter().enumerate() {
        let pushed = columns.document(at).map(|tokens| tokens.push(document, &mut converted));
        if let Err(fault) = pushed {
            let origin = numbered(document.origin())?;
            return Err(Error::option(OPTION, format!("{fault} for the document of {origin}")));
        }
    }
    Ok(converted)
}

/// Documents as a record batch: the argument of the function.
fn as_batch(documents: &Documents) -> RecordBatch {
    let mut ids = ListBuilder::new(Int32Builder::new());
    let mut labels = ListBuilder::new(Int32Builder::new());
    let mut weights = ListBuilder::new(Float32Builder::new());
    for document in documents.iter() {
        let inputs = document.column(INPUTS);
        let mut label = vec![UNTRAINED; inputs.len()];
        let mut weight = vec![0.0; inputs.len()];
        for run in document.trained() {
            // Nothing predicts the first token.
            for at in run.start.max(1) as usize..run.end as usize {
                label[at] = inputs[at].cast_signed();
                weight[at] = run.weight;
            }
        }
        ids.append_value(inputs.iter().map(|id| Some(id.cast_signed())));
        labels.append_value(label.into_iter().map(Some));
        weights.append_value(weight.into_iter().map(Some));
    }
    let keys: UInt64Array = documents.iter().map(|document| Some(document.key(0, 0))).collect();
    let columns: [(&str, ArrayRef); 4] = [
        (RowColumn::InputIds.name(), Arc::new(ids.finish())),
        (RowColumn::Labels.name(), Arc::new(labels.finish())),
        (RowColumn::LossWeights.name(), Arc::new(weights.finish())),
        ("key", Arc::new(keys)),
    ];
    RecordBatch::try_from_iter(columns).expect("lists for each document")
}

/// The columns of the batch that the function returned.
struct Returned {
    ids: ListArray,
    labels: ListArray,
    weights: Option<ListArray>,
    types: Option<ListArray>,
}

impl Returned {
    /// The columns of a batch that was returned for `documents` documents.
    fn of(batch: &RecordBatch, documents: usize) -> Result<Self> {
        if batch.num_rows() != documents {
            let found = batch.num_rows();
            let reason = format!(
                "must return a row for each document that it is given, {documents} and not {found}; `filter` leaves records out"
            );
            return Err(Error::option(OPTION, reason));
        }
        let schema = batch.schema();
        let is_known = |field: &Field| RETURNED.iter().any(|known| known.name() == field.name());
        if let Some(other) = schema.fields().iter().find(|field| !is_known(field)) {
            let known = RETURNED.map(|known| format!("`{}`", known.name())).join(", ");
            let reason = format!("must return columns among {known}, not `{}`", other.name());
            return Err(Error::option(OPTION, reason));
        }
        let required = |column: RowColumn, lists: Option<ListArray>| {
            let missing = || Error::option(OPTION, format!("must return `{}`", column.name()));
            lists.ok_or_else(missing)
        };
        let int32 = |column| lists_of::<Int32Type>(batch, column);
        Ok(Self {
            ids: required(RowColumn::InputIds, int32(RowColumn::InputIds)?)?,
            labels: required(RowColumn::Labels, int32(RowColumn::Labels)?)?,
            weights: lists_of::<Float32Type>(batch, RowColumn::LossWeights)?,
            types: int32(RowColumn::TokenTypeIds)?,
        })
    }

    /// The tokens of a document, or the fault in them.
    fn document(&self, at: usize) -> std::result::Result<ReturnedTokens, String> {
        let ids = values::<Int32Type>(&self.ids, at);
        if ids.is_empty() {
            return Err("returned no token".to_owned());
        }
        let (labels, types) =
            (values::<Int32Type>(&self.labels, at), self.types.as_ref().map(|it| values(it, at)));
        let weights = self.weights.as_ref().map(|it| values::<Float32Type>(it, at));
        let length = |types: &PrimitiveArray<Int32Type>| types.len();
        let lengths = [
            (RowColumn::Labels, Some(labels.len())),
            (RowColumn::LossWeights, weights.as_ref().map(PrimitiveArray::len)),
            (RowColumn::TokenTypeIds, types.as_ref().map(length)),
        ];
        for (column, length) in lengths {
            if let Some(length) = length.filter(|&length| length != ids.len()) {
                let (name, tokens) = (column.name(), ids.len());
                return Err(format!("returned {length} `{name}` and {tokens} `input_ids`"));
            }
        }
        let refuse = |column: RowColumn, found: &dyn std::fmt::Display, wanted: &str| {
            Err(format!(
                "returned {found} among `{}`, where {wanted} are asked for,",
                column.name()
            ))
        };
        if let Some(id) = ids.values().iter().find(|&&id| id < 0) {
            return refuse(RowColumn::InputIds, id, "ids of tokens");
        }
        if let Some(label) = labels.values().iter().find(|&&it| it < 0 && it != UNTRAINED) {
            return refuse(RowColumn::Labels, label, "-100 and ids of tokens");
        }
        let found = types.as_ref().and_then(|types| types.values().iter().find(|&&it| it < 0));
        if let Some(found) = found {
            return refuse(RowColumn::TokenTypeIds, found, "numbers from 0");
        }
        let is_weight = |weight: f32| weight.is_finite() && weight >= 0.0;
        let mut all_weights = weights.iter().flat_map(|weights| weights.values().iter());
        if let Some(weight) = all_weights.find(|&&weight| !is_weight(weight)) {
            return refuse(RowColumn::LossWeights, weight, "finite numbers from 0");
        }
        Ok(ReturnedTokens { ids, labels, weights, types })
    }
}

/// The tokens of a document that the function returned.
struct ReturnedTokens {
    ids: PrimitiveArray<Int32Type>,
    labels: PrimitiveArray<Int32Type>,
    weights: Option<PrimitiveArray<Float32Type>>,
    types: Option<PrimitiveArray<Int32Type>>,
}

impl ReturnedTokens {
    /// Appends them in place of `document`.
    fn push(&self, document: Document<'_>, documents: &mut Documents) {
        let bits = |numbers: &PrimitiveArray<Int32Type>| -> Vec<u32> {
            numbers.values().iter().map(|number| number.cast_unsigned()).collect()
        };
        let types = self.types.as_ref().map_or_else(Vec::new, bits);
        let columns = [&bits(&self.ids)[..], &bits(&self.labels), &types];
        let number = documents.len();
        documents.push(&columns, self.runs(), document.origin().line);
        documents.mark_turn(document.turn());
        documents.mark_content(number, document.content());
        if document.is_text() {
            documents.mark_text();
        }
    }

    /// The runs of tokens with a label and the same weight.
    fn runs(&self) -> Vec<TrainedRun> {
        let mut runs: Vec<TrainedRun> = Vec::new();
        for (at, label) in (0..).zip(self.labels.values()) {
            let weight = self.weights.as_ref().map_or(1.0, |weights| weights.value(at as usize));
            if *label == UNTRAINED || weight == 0.0 {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.end == at && run.weight.to_bits() == weight.to_bits() => {
                    run.end += 1;
                }
                _ => runs.push(TrainedRun { start: at, end: at + 1, weight }),
            }
        }
        runs
    }
}

/// A column as lists of these numbers; `None` if there is none of its name.
fn lists_of<T: ArrowPrimitiveType>(
    batch: &RecordBatch,
    column: RowColumn,
) -> Result<Option<ListArray>> {
    let Some(found) = batch.column_by_name(column.name()) else { return Ok(None) };
    let item = Field::new_list_field(T::DATA_TYPE, true);
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let fits = match found.data_type() {
        DataType::List(items) | DataType::LargeList(items) | DataType::FixedSizeList(items, _) => {
            let item_type = items.data_type();
            item_type.is_integer() || T::DATA_TYPE.is_floating() && item_type.is_numeric()
        }
        _ => false,
    };
    let lists = Some(found)
        .filter(|_| fits)
        .and_then(|found| cast_with_options(found, &DataType::List(Arc::new(item)), &strict).ok());
    let lists = lists.map(|lists| lists.as_list::<i32>().clone());
    let whole = lists.filter(|lists| lists.null_count() == 0 && lists.values().null_count() == 0);
    whole.map(Some).ok_or_else(|| {
        let reason = format!(
            "must return lists of {} without nulls as `{}`, not {}",
            T::DATA_TYPE,
            column.name(),
            found.data_type()
        );
        Error::option(OPTION, reason)
    })
}

/// The values of a list.
fn values<T: ArrowPrimitiveType>(lists: &ListArray, at: usize) -> PrimitiveArray<T> {
    lists.value(at).as_primitive::<T>().clone()
}
