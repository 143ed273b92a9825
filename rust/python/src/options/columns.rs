//! [`PyColumns`]: the columns of the rows.

use fastpack_core::config::RowColumn;
use pyo3::prelude::*;

use crate::convert::{refuse, word, words};

words!(
    /// A column of the rows.
    PyColumn(RowColumn), "columns"
);

/// The columns of the rows, in their order.
pub(crate) struct PyColumns(pub(crate) Vec<RowColumn>);

impl<'py> FromPyObject<'_, 'py> for PyColumns {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let names: Vec<Bound<'py, PyAny>> =
            value.extract().map_err(|_| refuse(value, "columns", "a list of column names"))?;
        let columns = names.iter().map(|name| name.extract().map(|PyColumn(column)| column));
        Ok(Self(columns.collect::<PyResult<_>>()?))
    }
}
