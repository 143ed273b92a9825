//! Converts Python arguments to the packing options. It holds no defaults.

use std::num::NonZeroU32;

use fastpack_core::config::{OnRemainder, Order, Overlong, PackOptions, PadTo, Side, Strategy};
use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::convert::{counts, refuse, switches, word, words};
use crate::error;

/// The packing options.
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
            max_target_length: None,
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
    /// The packing strategy.
    PyStrategy(Strategy), "strategy"
);
words!(
    /// The handling of documents that are longer than a row.
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
    /// Whether documents are shuffled before they are packed.
    PyShuffle, "shuffle"
);
words!(
    /// The order of the rows.
    PyOrder(Order), "order"
);
words!(
    /// The handling of rows that ranks cannot share equally.
    PyOnRemainder(OnRemainder), "on_remainder"
);
words!(
    /// The end of a row at which padding is added.
    PySide(Side), "padding_side"
);

counts!(
    /// The most tokens of a row.
    PyMaxLength(NonZeroU32), "max_length", i32::MAX.cast_unsigned()
);
counts!(
    /// The most documents of a row.
    PyMaxDocuments(NonZeroU32), "max_documents_per_pack", u32::MAX
);
counts!(
    /// The alignment of documents in tokens: each takes a multiple of this length.
    PyAlign(NonZeroU32), "align_documents_to", u32::MAX
);
counts!(
    /// The number of ranks that share the rows.
    PyWorldSize(NonZeroU32), "balance_ranks", u32::MAX
);

/// The random seed.
pub(crate) struct PySeed(u64);

impl<'py> FromPyObject<'_, 'py> for PySeed {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let number = value.extract().ok().filter(|_| !value.is_instance_of::<PyBool>());
        number.map(Self).ok_or_else(|| refuse(value, "seed", "a whole number from 0 to 2**64 - 1"))
    }
}

/// The length to which rows are padded: `None` for no padding, `"max_length"`, or a multiple of a number.
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

/// The id of the padding token.
pub(crate) struct PyPadTokenId(pub(crate) u32);

impl<'py> FromPyObject<'_, 'py> for PyPadTokenId {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let id = value.extract().ok().filter(|_| !value.is_instance_of::<PyBool>());
        id.map(Self).ok_or_else(|| refuse(value, "pad_token_id", "a token id"))
    }
}
