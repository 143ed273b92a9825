//! Packed rows that were written: their documents, the rules that they keep, and the compact layout.

use std::path::PathBuf;

use arrow::array::RecordBatch;
use arrow_pyarrow::PyArrowType;
use fastpack_core::assemble::{self, CompactRows, DocumentTable, PackedOptions, RowBoundaries};
use fastpack_core::config::RowColumn;
use fastpack_core::sink;
use numpy::{Element, IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::arrays;
use crate::arrow::{NewTable, TableArgument};
use crate::error::to_py;
use crate::interruptible::{self, Interrupted};
use crate::options::output::PyFormat;
use crate::options::{PyColumn, PyColumns};

/// The columns in the full layout of a table with columns of these names; `None` if it is in the full layout. `said` is the
/// text of its metadata that names them.
#[pyfunction]
pub(crate) fn shown_columns(
    names: Vec<String>,
    said: Option<&[u8]>,
) -> PyResult<Option<Vec<String>>> {
    assemble::shown_columns(&names, said).map_err(to_py)
}

/// A table in the compact layout in the full layout, with these columns.
#[pyfunction]
pub(crate) fn expand_rows(
    py: Python<'_>,
    table: TableArgument,
    columns: Vec<String>,
) -> PyResult<NewTable> {
    let (batches, stored) = table.0.into_inner();
    let (schema, batches) =
        interruptible::run(py, None, Interrupted::Abandon, move |control, _| {
            assemble::expand_rows(&stored, batches, &columns, control)
        })?;
    NewTable::new(batches, schema)
}

/// The labels, positions and weights of one row in the compact layout.
type ExpandedRow<'py> =
    (Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<i32>>, Option<Bound<'py, PyArray1<f32>>>);

/// Makes the columns of one row of its ids, the lengths of its documents, and runs of labels with their weights.
#[pyfunction]
pub(crate) fn expand_row<'py>(
    py: Python<'py>,
    ids: PyReadonlyArray1<'py, i64>,
    lengths: PyReadonlyArray1<'py, i64>,
    spans: PyReadonlyArray1<'py, i64>,
    shifted: bool,
    weights: Option<PyReadonlyArray1<'py, f32>>,
) -> PyResult<ExpandedRow<'py>> {
    arrays::ready(py)?;
    let weights = weights.as_ref().map(PyReadonlyArray1::as_slice).transpose()?;
    let (spans, ids, lengths) = (spans.as_slice()?, ids.as_slice()?, lengths.as_slice()?);
    let row = assemble::expand_row(ids, lengths, spans, shifted, weights);
    let row = row.map_err(to_py)?;
    let weights = row.weights.map(|weights| weights.into_pyarray(py));
    Ok((row.labels.into_pyarray(py), row.positions.into_pyarray(py), weights))
}

/// Consecutive rows in the compact layout, whose columns are made row by row.
#[pyclass(name = "CompactRows", frozen, module = "fastpack._fastpack")]
pub(crate) struct PyCompactRows(CompactRows);

#[pymethods]
impl PyCompactRows {
    #[new]
    fn new(batch: PyArrowType<RecordBatch>) -> PyResult<Self> {
        CompactRows::new(batch.0, 0).map(Self).map_err(to_py)
    }

    /// The values of a column that has one for each token.
    fn values<'py>(
        &self,
        py: Python<'py>,
        column: PyColumn,
        row: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        arrays::ready(py)?;
        let rows = row..row + 1;
        if column.0 == RowColumn::LossWeights {
            let weights = self.0.loss_weights(rows).map_err(to_py)?;
            return Ok(Vec::from(weights.into_parts().1).into_pyarray(py).into_any());
        }
        let numbers = self.0.numbers(column.0, rows).map_err(to_py)?;
        Ok(Vec::from(numbers.into_parts().1).into_pyarray(py).into_any())
    }
}

/// The broken rules, each with its first row and a message; the documents and tokens, where columns say how many.
type CheckedRows = (Vec<(usize, String)>, Option<(u64, u64)>);

/// Checks rows in the full layout.
#[pyfunction]
pub(crate) fn check_rows(
    py: Python<'_>,
    table: TableArgument,
    options: &str,
) -> PyResult<CheckedRows> {
    let (batches, schema) = table.0.into_inner();
    let options = PackedOptions::parse(options).map_err(to_py)?;
    let checked = interruptible::run(py, None, Interrupted::Abandon, move |control, _| {
        assemble::check_rows(&schema, &batches, &options, control)
    })?;
    Ok((checked.problems, checked.counts))
}

/// The documents of some rows, a value of each array for each.
#[pyclass(name = "RowDocuments", frozen, module = "fastpack._fastpack", get_all)]
pub(crate) struct PyRowDocuments {
    rows: Py<PyArray1<i64>>,
    numbers: Py<PyArray1<i64>>,
    starts: Py<PyArray1<i64>>,
    lengths: Py<PyArray1<i64>>,
    unpadded: Py<PyArray1<i64>>,
    labels: Py<PyArray1<i64>>,
    files: Py<PyArray1<i64>>,
}

/// The fault of the first line of a file that cannot be a row, for readers that a line could end; `None` if all can.
#[pyfunction]
pub(crate) fn line_fault(py: Python<'_>, path: PathBuf) -> PyResult<Option<String>> {
    interruptible::run(py, None, Interrupted::Abandon, move |control, _| {
        sink::line_fault(&path, control)
    })
}

/// The documents of rows in any layout.
#[pyfunction]
pub(crate) fn row_documents(
    py: Python<'_>,
    table: TableArgument,
    options: &str,
) -> PyResult<PyRowDocuments> {
    arrays::ready(py)?;
    let (batches, _) = table.0.into_inner();
    let options = PackedOptions::parse(options).map_err(to_py)?;
    let found = interruptible::run(py, None, Interrupted::Abandon, move |control, _| {
        assemble::documents_of(&batches, &options, control)
    })?;
    let DocumentTable { rows, numbers, starts, lengths, unpadded, labels, files } = found;
    let array = |values: Vec<i64>| values.into_pyarray(py).unbind();
    Ok(PyRowDocuments {
        rows: array(rows),
        numbers: array(numbers),
        starts: array(starts),
        lengths: array(lengths),
        unpadded: array(unpadded),
        labels: array(labels),
        files: array(files),
    })
}

/// A hash of the tokens and labels of each document of rows in the full layout.
#[pyfunction]
pub(crate) fn document_hashes(py: Python<'_>, table: TableArgument) -> PyResult<Vec<u64>> {
    let (batches, _) = table.0.into_inner();
    interruptible::run(py, None, Interrupted::Abandon, move |control, _| {
        assemble::document_hashes(&batches, control)
    })
}

/// The first row whose `position_ids` start again.
#[pyfunction]
pub(crate) fn first_restart(table: TableArgument) -> Option<usize> {
    assemble::first_restart(table.0.record_batches())
}

/// The label of a whole document: a judgement, a class, or a truth for each class.
#[derive(IntoPyObject)]
pub(crate) enum RowLabel {
    Judgement(bool),
    Class(i64),
    Truths(Vec<f64>),
}

impl From<assemble::RowLabel> for RowLabel {
    fn from(label: assemble::RowLabel) -> Self {
        match label {
            assemble::RowLabel::Judgement(is_good) => Self::Judgement(is_good),
            assemble::RowLabel::Class(class) => Self::Class(class),
            assemble::RowLabel::Truths(truths) => Self::Truths(truths),
        }
    }
}

/// A document of a row: its first token, its tokens and labels, its file and line, whether the labels are its targets, and its
/// label.
type InspectedDocument = (usize, Vec<i64>, Vec<i64>, i64, i64, bool, Option<RowLabel>);

/// The documents of the first row of a table in the full layout.
#[pyfunction]
pub(crate) fn inspect_row(table: TableArgument) -> PyResult<Vec<InspectedDocument>> {
    let documents = assemble::inspect_row(table.0.record_batches()).map_err(to_py)?;
    let parts = documents.into_iter().map(|it| {
        let label = it.label.map(RowLabel::from);
        (it.start, it.ids, it.labels, it.file, it.line, it.has_targets, label)
    });
    Ok(parts.collect())
}

/// The positions of tokens, the places of the first tokens of documents, the ends of documents, the tokens of the longest,
/// and the number of each token's document.
type Boundaries<'py> = (
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i32>>,
    i64,
    Bound<'py, PyArray1<i64>>,
);

/// The beginnings of documents in rows with documents of these lengths, laid end to end, or each filled up to `width`.
#[pyfunction]
pub(crate) fn row_boundaries<'py>(
    py: Python<'py>,
    rows: Vec<PyReadonlyArray1<'py, i64>>,
    width: Option<usize>,
    numbers: bool,
) -> PyResult<Boundaries<'py>> {
    arrays::ready(py)?;
    let rows = rows.iter().map(PyReadonlyArray1::as_slice).collect::<Result<Vec<_>, _>>()?;
    let boundaries = RowBoundaries::of(&rows, width, numbers);
    Ok((
        array(py, boundaries.positions),
        array(py, boundaries.starts),
        array(py, boundaries.ends),
        boundaries.longest,
        array(py, boundaries.numbers),
    ))
}

fn array<T: Element>(py: Python<'_>, values: Vec<T>) -> Bound<'_, PyArray1<T>> {
    values.into_pyarray(py)
}

/// The value of each column in a row of padding with this token; columns in which padding has values of its own are left
/// out.
#[pyfunction]
pub(crate) fn padding_values(token: i64) -> Vec<(&'static str, i64)> {
    let value = |&(name, column): &(&'static str, RowColumn)| {
        assemble::padding_value(column, token).map(|value| (name, value))
    };
    RowColumn::WORDS.iter().filter_map(value).collect()
}

/// An estimate of the bytes of a file with rows of `tokens` tokens, before compression.
#[pyfunction]
pub(crate) fn bytes_of_rows(columns: PyColumns, format: PyFormat, tokens: u64) -> u64 {
    format.coding.bytes_of(&columns.0, tokens)
}
