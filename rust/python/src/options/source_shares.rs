//! [`PyShares`]: the shares of the sources of a job; a stream has its own.

use fastpack_core::config::{ShareUnit, Shares, SourceShare, StoppingStrategy};
use pyo3::prelude::*;

use crate::convert::{field, word, words};

words!(
    /// The source with which a mixture of sources ends.
    PyStoppingStrategy(StoppingStrategy), "weights.stopping_strategy"
);

/// The unit of the shares and the end of the mixture, of the `fastpack.Weights` of a job that ends.
pub(crate) struct PyShares {
    unit: ShareUnit,
    stopping: StoppingStrategy,
}

impl<'py> FromPyObject<'_, 'py> for PyShares {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self {
            unit: field::<PyShareUnit>(&value, "unit")?.0,
            stopping: field::<PyStoppingStrategy>(&value, "stopping_strategy")?.0,
        })
    }
}

impl PyShares {
    /// The shares of these sources.
    pub(crate) fn of(&self, sources: Vec<PySourceShare>) -> Shares {
        let share = |PySourceShare(name, weight, fraction)| SourceShare { name, weight, fraction };
        let sources = sources.into_iter().map(share).collect();
        Shares { sources, unit: self.unit, stopping: self.stopping }
    }
}

/// The name of a source, its weight if it has one, and the fraction of it that is drawn.
#[derive(FromPyObject)]
pub(crate) struct PySourceShare(String, Option<f64>, f64);

/// The unit of shares: tokens or documents.
struct PyShareUnit(ShareUnit);

impl<'py> FromPyObject<'_, 'py> for PyShareUnit {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        word(value, "weights.unit", ShareUnit::WORDS).map(Self)
    }
}
