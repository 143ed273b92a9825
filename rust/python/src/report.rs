//! The report of a run, handed over as the `fastpack.Report` that reads it.

use fastpack_core::Report;
use pyo3::prelude::*;

/// What a run came to; in Python, a `fastpack.Report`.
#[derive(Clone, Debug)]
pub(crate) struct PyReport(pub(crate) Report);

impl<'py> IntoPyObject<'py> for PyReport {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        py.import("fastpack.report")?
            .getattr("Report")?
            .call_method1("from_json", (self.0.to_json(),))
    }
}
