//! [`convert_documents`]: documents as a function of the caller makes them, for the objective `function`.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float32Builder, Int32Builder, ListBuilder, RecordBatch, UInt64Array};
use arrow::datatypes::{ArrowPrimitiveType, Field, Float32Type, Int32Type};
use num_traits::NumCast;

use crate::assemble::NumberLists;
use crate::config::RowColumn;
use crate::document::{CUSTOM_LABELS, CUSTOM_TOKEN_TYPES, Document, Documents, INPUTS, TrainedRun};
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
    let names = [INPUTS, CUSTOM_LABELS, CUSTOM_TOKEN_TYPES];
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
    ids: NumberLists<Int32Type>,
    labels: NumberLists<Int32Type>,
    weights: Option<NumberLists<Float32Type>>,
    types: Option<NumberLists<Int32Type>>,
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
        let required = |column: RowColumn, lists: Option<NumberLists<Int32Type>>| {
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
    fn document(&self, at: usize) -> std::result::Result<ReturnedTokens<'_>, String> {
        let ids = self.ids.row(at);
        if ids.is_empty() {
            return Err("returned no token".to_owned());
        }
        let labels = self.labels.row(at);
        let weights = self.weights.as_ref().map(|lists| lists.row(at));
        let types = self.types.as_ref().map(|lists| lists.row(at));
        let lengths = [
            (RowColumn::Labels, Some(labels.len())),
            (RowColumn::LossWeights, weights.map(<[f32]>::len)),
            (RowColumn::TokenTypeIds, types.map(<[i32]>::len)),
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
        if let Some(id) = ids.iter().find(|&&id| id < 0) {
            return refuse(RowColumn::InputIds, id, "ids of tokens");
        }
        if let Some(label) = labels.iter().find(|&&it| it < 0 && it != UNTRAINED) {
            return refuse(RowColumn::Labels, label, "-100 and ids of tokens");
        }
        if let Some(found) = types.and_then(|types| types.iter().find(|&&it| it < 0)) {
            return refuse(RowColumn::TokenTypeIds, found, "numbers from 0");
        }
        let is_weight = |weight: f32| weight.is_finite() && weight >= 0.0;
        let mut all_weights = weights.into_iter().flatten();
        if let Some(weight) = all_weights.find(|&&weight| !is_weight(weight)) {
            return refuse(RowColumn::LossWeights, weight, "finite numbers from 0");
        }
        Ok(ReturnedTokens { ids, labels, weights, types })
    }
}

/// The tokens of a document that the function returned.
struct ReturnedTokens<'a> {
    ids: &'a [i32],
    labels: &'a [i32],
    weights: Option<&'a [f32]>,
    types: Option<&'a [i32]>,
}

impl ReturnedTokens<'_> {
    /// Appends them in place of `document`.
    fn push(&self, document: Document<'_>, documents: &mut Documents) {
        let bits = |numbers: &[i32]| -> Vec<u32> {
            numbers.iter().map(|number| number.cast_unsigned()).collect()
        };
        let types = self.types.map_or_else(Vec::new, bits);
        let columns = [&bits(self.ids)[..], &bits(self.labels), &types];
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
        for (at, label) in (0..).zip(self.labels) {
            let weight = self.weights.map_or(1.0, |weights| weights[at as usize]);
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
fn lists_of<T: ArrowPrimitiveType<Native: NumCast>>(
    batch: &RecordBatch,
    column: RowColumn,
) -> Result<Option<NumberLists<T>>> {
    NumberLists::of(batch, column.name()).map_err(|_| {
        let found = batch.column_by_name(column.name()).map(|it| it.data_type().to_string());
        let reason = format!(
            "must return lists of {} without nulls as `{}`, not {}",
            T::DATA_TYPE,
            column.name(),
            found.unwrap_or_default()
        );
        Error::option(OPTION, reason)
    })
}
