//! Python arguments to the options that decide how documents become rows. No default stands here.

use std::num::NonZeroU32;

use fastpack_core::config::{OnRemainder, Order, Overlong, PackOptions, PadTo, Side, Strategy};
use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::convert::{counts, refuse, switches, word, words};
use crate::error;

/// How documents become rows.
#[pyclass(name = "PackOptions", module = "fastpack._fastpack", frozen)]
#[derive(Debug)]
pub(crate) struct PyPackOptions(pub(crate) PackOptions);

#[pymethods]
impl PyPackOptions {
    #[new]
    #[pyo3(signature = (*, max_length, strategy, overlong, truncation_side, drop_last, shuffle, max_documents_per_pack, align_documents_to, order, balance_ranks, on_remainder, seed))]
    #[expect(clippy::too_many_arguments, reason = "one for each keyword of the Python functions")]
    fn new(
        max_length: Option<PyMaxLength>,
        strategy: PyStrategy,
        overlong: Option<PyOverlong>,
        truncation_side: PyTruncationSide,
        drop_last: PyDropLast,
        shuffle: PyShuffle,
        max_documents_per_pack: Option<PyMaxDocuments>,
        align_documents_to: Option<PyAlign>,
        order: Option<PyOrder>,
        balance_ranks: Option<PyWorldSize>,
        on_remainder: PyOnRemainder,
        seed: PySeed,
    ) -> PyResult<Self> {
        let options = PackOptions {
            max_length: max_length.map(|most| most.0),
            strategy: strategy.0,
            overlong: overlong.map(|overlong| overlong.0),
            truncation_side: truncation_side.0,
            drop_last: drop_last.0,
            shuffle: shuffle.0,
            max_documents_per_pack: max_documents_per_pack.map(|most| most.0),
            align_documents_to: align_documents_to.map(|align| align.0),
            order: order.map(|order| order.0),
            balance_ranks: balance_ranks.map(|size| size.0),
            on_remainder: on_remainder.0,
            seed: seed.0,
        };
        options.validate().map_err(error::to_py)?;
        Ok(Self(options))
    }
}

words!(
    /// How documents are put together.
    PyStrategy(Strategy), "strategy"
);
words!(
    /// What happens to a document longer than a row.
    PyOverlong(Overlong), "overlong"
);
words!(
    /// The end at which a document is truncated.
    PyTruncationSide(Side), "truncation_side"
);
switches!(
    /// Whether the last row of `concat` is dropped if it is not full.
    PyDropLast, "drop_last"
);
switches!(
    /// Whether documents are put in an order drawn from the seed.
    PyShuffle, "shuffle"
);
words!(
    /// The order of the rows.
    PyOrder(Order), "order"
);
words!(
    /// What happens where ranks cannot share the rows equally.
    PyOnRemainder(OnRemainder), "on_remainder"
);
words!(
    /// The end of a row at which it is filled up.
    PySide(Side), "padding_side"
);

counts!(
    /// Tokens that a row holds at most.
    PyMaxLength(NonZeroU32), "max_length", i32::MAX.cast_unsigned()
);
counts!(
    /// Documents that a row holds at most.
    PyMaxDocuments(NonZeroU32), "max_documents_per_pack", u32::MAX
);
counts!(
    /// What the room of a document is a multiple of.
    PyAlign(NonZeroU32), "align_documents_to", u32::MAX
);
counts!(
    /// Ranks that share the rows.
    PyWorldSize(NonZeroU32), "balance_ranks", u32::MAX
);

/// What decides what is left to chance.
pub(crate) struct PySeed(u64);

impl<'py> FromPyObject<'_, 'py> for PySeed {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let number = value.extract().ok().filter(|_| !value.is_instance_of::<PyBool>());
        number.map(Self).ok_or_else(|| refuse(value, "seed", "a whole number from 0 to 2**64 - 1"))
    }
}

/// What rows are filled up to: `None`, `"max_length"`, or a multiple.
pub(crate) struct PyPadTo(pub(crate) PadTo);

impl<'py> FromPyObject<'_, 'py> for PyPadTo {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if value.is_none() {
            return Ok(Self(PadTo::Nothing));
        }
        if value.extract::<&str>().is_ok_and(|word| word == "max_length") {
            return Ok(Self(PadTo::MaxLength));
        }
        let multiple = value.extract().ok().filter(|_| !value.is_instance_of::<PyBool>());
        multiple.map(PadTo::Multiple).map(Self).ok_or_else(|| {
            refuse(value, "pad_to", "None, \"max_length\" or a whole number that divides it")
        })
    }
}

/// The id that fills rows up.
pub(crate) struct PyPadTokenId(pub(crate) u32);

impl<'py> FromPyObject<'_, 'py> for PyPadTokenId {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let id = value.extract().ok().filter(|_| !value.is_instance_of::<PyBool>());
        id.map(Self).ok_or_else(|| refuse(value, "pad_token_id", "a token id"))
    }
}
