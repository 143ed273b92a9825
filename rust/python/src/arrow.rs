//! Record batches to `pyarrow` tables, without a copy.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_pyarrow::{PyArrowType, Table};
use fastpack_core::assemble::schema;
use fastpack_core::config::RowColumn;
use fastpack_core::sink::Tables;
use fastpack_core::{Error, Report};
use pyo3::prelude::*;

use crate::error;

/// The table of one batch.
pub(crate) fn batch(rows: RecordBatch) -> PyResult<PyArrowType<Table>> {
    let schema = rows.schema();
    table(vec![rows], schema)
}

/// What a run comes to in memory: the rows to train on, and those that are set aside if any are.
pub(crate) type PyTables = (PyArrowType<Table>, Option<PyArrowType<Table>>);

/// The tables of a run, each with the timeless part of its report.
pub(crate) fn reported(
    tables: Tables,
    columns: &[RowColumn],
    report: Report,
) -> PyResult<PyTables> {
    let timeless = Report { timing: None, ..report };
    let schema = schema::with_report(&schema::schema(columns), timeless.to_json());
    let validation = tables.validation.map(|rows| table(rows, SchemaRef::clone(&schema)));
    Ok((table(tables.train, schema)?, validation.transpose()?))
}

fn table(batches: Vec<RecordBatch>, schema: SchemaRef) -> PyResult<PyArrowType<Table>> {
    let batches = batches.into_iter().map(|batch| batch.with_schema(SchemaRef::clone(&schema)));
    let table =
        batches.collect::<Result<_, _>>().and_then(|batches| Table::try_new(batches, schema));
    table.map(PyArrowType).map_err(|refused| error::to_py(Error::Arrow(refused)))
}
