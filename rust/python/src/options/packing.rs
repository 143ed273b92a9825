//! Converts Python arguments to the packing options. It holds no defaults.

use std::num::{NonZeroU32, NonZeroUsize};

use fastpack_core::config::{OnRemainder, Overlong, PackOptions, PadTo, RowOrder, Side, Strategy};
use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::convert::{counts, field, refuse, switches, word, words};
use crate::error;

/// The packing options.
#[pyclass(name = "PackOptions", module = "fastpack._fastpack", frozen)]
#[derive(Debug)]
pub(crate) struct PyPackOptions(pub(crate) PackOptions);

#[pymethods]
impl PyPackOptions {
    #[new]
    #[pyo3(signature = (*, max_length, strategy, overlong, order, seed))]
    fn new(
        max_length: Option<PyMaxLength>,
        strategy: PyPacking,
        overlong: PyLongDocuments,
        order: PyRowOrder,
        seed: PySeed,
    ) -> PyResult<Self> {
        let options = PackOptions {
            max_length: max_length.map(|most| most.0),
            max_target_length: None,
            max_images_per_pack: None,
            max_image_tokens_per_pack: None,
            strategy: strategy.strategy,
            overlong: overlong.overlong,
            truncation_side: overlong.side,
            drop_last: strategy.drop_last,
            shuffle: strategy.shuffle,
            max_documents_per_pack: strategy.max_documents,
            align_documents_to: strategy.align_to,
            order: order.order,
            balance_ranks: order.ranks,
            on_remainder: order.on_remainder,
            seed: seed.0,
        };
        options.validate().map_err(error::to_py)?;
        Ok(Self(options))
    }
}

/// A packing strategy with its options, of a `fastpack.options.packing.Packing`.
pub(crate) struct PyPacking {
    strategy: Strategy,
    align_to: Option<NonZeroU32>,
    max_documents: Option<NonZeroU32>,
    shuffle: bool,
    drop_last: bool,
    pub(crate) open_rows: Option<NonZeroUsize>,
}

impl<'py> FromPyObject<'_, 'py> for PyPacking {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let strategy = value.extract::<PyStrategy>()?.0;
        let align_to: Option<PyAlign> = field(&value, "align_to")?;
        let max_documents: Option<PyMaxDocuments> = match strategy {
            Strategy::None => None,
            _ => field(&value, "max_documents")?,
        };
        // A stream has a shuffle of its own.
        let shuffle = match strategy {
            Strategy::Sequential | Strategy::Concat | Strategy::None => {
                field::<PyShuffle>(&value, "shuffle")?.0
            }
            _ => false,
        };
        let drop_last = match strategy {
            Strategy::Concat => field::<PyDropLast>(&value, "drop_last")?.0,
            _ => false,
        };
        let open_rows = match strategy {
            Strategy::BestFit => Some(field::<PyOpenRows>(&value, "open_rows")?.0),
            _ => None,
        };
        Ok(Self {
            strategy,
            align_to: align_to.map(|it| it.0),
            max_documents: max_documents.map(|it| it.0),
            shuffle,
            drop_last,
            open_rows,
        })
    }
}

/// The handling of documents that are longer than a row: a word, or a `fastpack.Truncate`.
pub(crate) struct PyLongDocuments {
    overlong: Option<Overlong>,
    side: Side,
}

impl<'py> FromPyObject<'_, 'py> for PyLongDocuments {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if value.is_none() {
            return Ok(Self { overlong: None, side: Side::Right });
        }
        let overlong = value.extract::<PyOverlong>()?.0;
        let side = match overlong {
            Overlong::Truncate => field::<PyTruncationSide>(&value, "side")?.0,
            _ => Side::Right,
        };
        Ok(Self { overlong: Some(overlong), side })
    }
}

/// The order of the rows: a word, or a `fastpack.Balanced`.
pub(crate) struct PyRowOrder {
    order: Option<RowOrder>,
    ranks: Option<NonZeroU32>,
    on_remainder: OnRemainder,
}

impl<'py> FromPyObject<'_, 'py> for PyRowOrder {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let plain = |order| Self { order, ranks: None, on_remainder: OnRemainder::Pad };
        if value.is_none() {
            return Ok(plain(None));
        }
        match value.extract::<PyOrder>()?.0 {
            RowOrder::Balanced => Ok(Self {
                order: Some(RowOrder::Balanced),
                ranks: Some(field::<PyBalanceRanks>(&value, "ranks")?.0),
                on_remainder: field::<PyOnRemainder>(&value, "on_remainder")?.0,
            }),
            order => Ok(plain(Some(order))),
        }
    }
}

/// The padding of rows, of a `fastpack.Padding`; `None` for none.
pub(crate) struct PyPadding {
    pub(crate) to: PadTo,
    pub(crate) side: Side,
    pub(crate) token_id: Option<u32>,
}

impl<'py> FromPyObject<'_, 'py> for PyPadding {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if value.is_none() {
            return Ok(Self { to: PadTo::Nothing, side: Side::Right, token_id: None });
        }
        let token_id: Option<PyPadTokenId> = field(&value, "token_id")?;
        Ok(Self {
            to: field::<PyPadTo>(&value, "to")?.0,
            side: field::<PySide>(&value, "side")?.0,
            token_id: token_id.map(|id| id.0),
        })
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
    PyTruncationSide(Side), "overlong.side"
);
switches!(
    /// True if the last row of `concat` is dropped if it is not full.
    PyDropLast, "strategy.drop_last"
);
switches!(
    /// True if documents are shuffled before they are packed.
    PyShuffle, "strategy.shuffle"
);
words!(
    /// The order of the rows.
    PyOrder(RowOrder), "order"
);
words!(
    /// The handling of rows that ranks cannot share equally.
    PyOnRemainder(OnRemainder), "order.on_remainder"
);
words!(
    /// The end of a row at which padding is added.
    PySide(Side), "padding.side"
);

counts!(
    /// The most tokens of a row.
    PyMaxLength(NonZeroU32), "max_length", i32::MAX.cast_unsigned()
);
counts!(
    /// The most documents of a row.
    PyMaxDocuments(NonZeroU32), "strategy.max_documents", u32::MAX
);
counts!(
    /// The alignment of documents in tokens: each takes a multiple of this length.
    PyAlign(NonZeroU32), "strategy.align_to", u32::MAX
);
counts!(
    /// The number of ranks that share the rows.
    PyBalanceRanks(NonZeroU32), "order.ranks", u32::MAX
);

counts!(
    /// The number of rows that a stream keeps open.
    PyOpenRows(NonZeroUsize), "strategy.open_rows", usize::MAX
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
            refuse(value, "padding.to", "None, \"max_length\" or a whole number that divides it")
        })
    }
}

/// The id of the padding token.
pub(crate) struct PyPadTokenId(pub(crate) u32);

impl<'py> FromPyObject<'_, 'py> for PyPadTokenId {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let id = value.extract().ok().filter(|_| !value.is_instance_of::<PyBool>());
        id.map(Self).ok_or_else(|| refuse(value, "padding.token_id", "a token id"))
    }
}
