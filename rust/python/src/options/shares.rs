//! [`shares()`]: the shares of the sources of a job that ends.

use fastpack_core::config::{ShareUnit, Shares, SourceShare, StoppingStrategy};
use pyo3::prelude::*;

use crate::convert::{word, words};

words!(
    /// The source with which a mixture of sources ends.
    PyStoppingStrategy(StoppingStrategy), "weights.stopping_strategy"
);

/// The unit of shares: tokens or documents.
pub(crate) struct PyShareUnit(ShareUnit);

impl<'py> FromPyObject<'_, 'py> for PyShareUnit {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        word(value, "weights.unit", ShareUnit::WORDS).map(Self)
    }
}

/// The shares of sources, from the name, the weight if any and the fraction of each.
pub(crate) fn shares(
    sources: Vec<(String, Option<f64>, f64)>,
    unit: &PyShareUnit,
    stopping: &PyStoppingStrategy,
) -> Shares {
    let share = |(name, weight, fraction)| SourceShare { name, weight, fraction };
    Shares { sources: sources.into_iter().map(share).collect(), unit: unit.0, stopping: stopping.0 }
}
