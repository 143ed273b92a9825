//! Record batches to `pyarrow` tables and back, without a copy.

use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow_pyarrow::{IntoPyArrow, PyArrowType, Table};
use fastpack_core::assemble::schema;
use fastpack_core::sink::MemoryTables;
use fastpack_core::{Error, Report};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;

use crate::error;

/// A table for the caller.
pub(crate) struct NewTable {
    batches: Vec<RecordBatch>,
    schema: SchemaRef,
}

impl NewTable {
    /// A table of batches that have the columns of this schema.
    pub(crate) fn new(batches: Vec<RecordBatch>, schema: SchemaRef) -> PyResult<Self> {
        let batches = batches.into_iter().map(|batch| batch.with_schema(SchemaRef::clone(&schema)));
        let batches = batches.collect::<Result<_, _>>();
        Ok(Self {
            batches: batches.map_err(|refused| error::to_py(Error::Arrow(refused)))?,
            schema,
        })
    }
}

impl From<RecordBatch> for NewTable {
    fn from(batch: RecordBatch) -> Self {
        Self { schema: batch.schema(), batches: vec![batch] }
    }
}

/// `pyarrow` reads the batches as one stream, so that the schema and its metadata, the state of a stream among them, are
/// converted once.
impl<'py> IntoPyObject<'py> for NewTable {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let batches = RecordBatchIterator::new(self.batches.into_iter().map(Ok), self.schema);
        let reader: Box<dyn RecordBatchReader + Send> = Box::new(batches);
        reader.into_pyarrow(py)?.call_method0(intern!(py, "read_all"))
    }
}

/// The tables of a run in memory: the training rows, and the validation rows if documents are set aside.
pub(crate) type PyTables = (NewTable, Option<NewTable>);

/// Makes the tables of a run. The schema metadata of each holds the report without its timing.
pub(crate) fn reported(tables: MemoryTables, report: Report) -> PyResult<PyTables> {
    let timeless = Report { timing: None, ..report };
    // A run without rows hands over an empty batch, which has the schema too.
    let rows = tables.train.first().map_or_else(|| schema::schema(&[]), RecordBatch::schema);
    let schema = schema::with_report(&rows, timeless.to_json());
    let validation = tables.validation.map(|rows| NewTable::new(rows, SchemaRef::clone(&schema)));
    Ok((NewTable::new(tables.train, schema)?, validation.transpose()?))
}

/// A table of the caller. Metadata of its schema that is not text is left out, as all metadata is text here.
pub(crate) struct TableArgument(pub(crate) Table);

impl<'py> FromPyObject<'_, 'py> for TableArgument {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let refused = match value.extract::<PyArrowType<Table>>() {
            Ok(table) => return Ok(Self(table.0)),
            Err(refused) if refused.is_instance_of::<PyTypeError>(value.py()) => {
                return Err(refused);
            }
            Err(refused) => refused,
        };
        let plain = value.call_method1("replace_schema_metadata", (value.py().None(),));
        if let Ok(table) = plain.and_then(|plain| plain.extract::<PyArrowType<Table>>()) {
            return Ok(Self(table.0));
        }
        let reason = format!("cannot be taken over: {}", refused.value(value.py()));
        Err(error::to_py(Error::option("table", reason)))
    }
}
