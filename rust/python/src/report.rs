//! [`PyReport`]: converts the report of a run to a `fastpack.Report`.

use fastpack_core::Report;
use pyo3::prelude::*;

/// The report of a run; in Python, a `fastpack.Report`.
#[derive(Clone, Debug)]
pub(crate) struct PyReport(pub(crate) Report);

impl<'py> IntoPyObject<'py> for PyReport {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let report = py
            .import("fastpack.report.report")?
            .getattr("Report")?
            .call_method1("from_json", (self.0.to_json(),))?;
        report.setattr("finished_before", self.0.finished_before)?;
        Ok(report)
    }
}
