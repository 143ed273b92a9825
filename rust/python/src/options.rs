//! Python arguments to the options of the core. No default stands here.

use std::num::{NonZeroU64, NonZeroUsize};

use chrono::{Local, NaiveDateTime};
use fastpack_core::config::{
    Bos, Eos, MOST_THREADS, MaxLost, OnBadRecord, Options, RowColumn, RowOptions, TokenOptions,
    TrainOn, TrainOnEos, WorkOptions,
};
use fastpack_core::json::{Map, Value};
use fastpack_core::record::{Conversation, MAX_DEPTH, conversation};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::convert::{bytes_given, counts, refuse, share_given, switches, word, words};
use crate::error;
use crate::pack_options::{PyPackOptions, PyPadTo, PyPadTokenId, PySide};
use crate::written::has_list;

/// What decides the content of the output.
#[pyclass(name = "Options", module = "fastpack._fastpack", frozen)]
#[derive(Debug)]
pub(crate) struct PyOptions(pub(crate) Options);

#[pymethods]
impl PyOptions {
    #[new]
    #[pyo3(signature = (*, packing, pad_to, padding_side, pad_token_id, train_on, train_on_eos, shift_labels, eos, bos, on_bad_record, max_lost, columns, now, verify, threads))]
    #[expect(clippy::too_many_arguments, reason = "one for each keyword of the Python functions")]
    fn new(
        packing: &PyPackOptions,
        pad_to: PyPadTo,
        padding_side: PySide,
        pad_token_id: Option<PyPadTokenId>,
        train_on: PyTrainOn,
        train_on_eos: Option<PyTrainOnEos>,
        shift_labels: PyShiftLabels,
        eos: PyEos,
        bos: PyBos,
        on_bad_record: PyOnBadRecord,
        max_lost: Option<PyMaxLost>,
        columns: PyColumns,
        now: Option<NaiveDateTime>,
        verify: PyVerify,
        threads: PyThreads,
    ) -> PyResult<Self> {
        let options = Options {
            tokens: TokenOptions {
                train_on: train_on.0,
                train_on_eos: train_on_eos.map(|ends| ends.0),
                eos: eos.0,
                bos: bos.0,
                on_bad_record: on_bad_record.0,
                now,
            },
            rows: RowOptions {
                packing: packing.0.clone(),
                pad_to: pad_to.0,
                padding_side: padding_side.0,
                pad_token_id: pad_token_id.map(|id| id.0),
                shift_labels: shift_labels.0,
                columns: columns.0,
            },
            work: WorkOptions {
                max_lost: max_lost.map(|most| most.0),
                verify: verify.0,
                threads: threads.0,
                started: Local::now().naive_local(),
            },
        };
        options.validate().map_err(error::to_py)?;
        Ok(Self(options))
    }
}

words!(
    /// Which tokens carry a label.
    PyTrainOn(TrainOn), "train_on"
);
words!(
    /// Which of the tokens that end trained turns are trained.
    PyTrainOnEos(TrainOnEos), "train_on_eos"
);
words!(
    /// What happens to a record that cannot be read.
    PyOnBadRecord(OnBadRecord), "on_bad_record"
);
words!(
    /// A column of the rows.
    PyColumn(RowColumn), "columns"
);

counts!(
    /// Worker threads.
    PyThreads(NonZeroUsize), "threads", MOST_THREADS
);
counts!(
    /// Records that stand for all.
    PySample(NonZeroU64), "sample", u64::MAX
);
counts!(
    /// Rows of a batch.
    PyBatchSize(NonZeroUsize), "batch_size", usize::MAX
);
counts!(
    /// Rows kept open while packing on the fly.
    PyOpenPacks(NonZeroUsize), "open_packs", usize::MAX
);

/// Whether documents end with the end-of-text token: `"auto"`, or a boolean.
pub(crate) struct PyEos(Eos);

impl<'py> FromPyObject<'_, 'py> for PyEos {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(always) = value.cast::<PyBool>() {
            return Ok(Self(if always.is_true() { Eos::Always } else { Eos::Never }));
        }
        match value.extract::<&str>() {
            Ok("auto") => Ok(Self(Eos::Auto)),
            _ => Err(refuse(value, "eos", "\"auto\", True or False")),
        }
    }
}

/// Whether documents begin with the token for it: `"auto"`, or `True`.
pub(crate) struct PyBos(Bos);

impl<'py> FromPyObject<'_, 'py> for PyBos {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if value.cast::<PyBool>().is_ok_and(|always| always.is_true()) {
            return Ok(Self(Bos::Always));
        }
        match value.extract::<&str>() {
            Ok("auto") => Ok(Self(Bos::Auto)),
            _ => Err(refuse(value, "bos", "\"auto\" or True")),
        }
    }
}

switches!(
    /// Whether each label stands one place before its token.
    PyShiftLabels, "shift_labels"
);

/// How much may be lost: a share, or a text such as `0.1%`.
pub(crate) struct PyMaxLost(MaxLost);

impl<'py> FromPyObject<'_, 'py> for PyMaxLost {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        share_given(value)
            .and_then(MaxLost::new)
            .map(Self)
            .ok_or_else(|| refuse(value, "max_lost", "a share such as \"0.1%\" or 0.001"))
    }
}

/// The columns of the rows, in their order.
pub(crate) struct PyColumns(Vec<RowColumn>);

impl<'py> FromPyObject<'_, 'py> for PyColumns {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let names: Vec<Bound<'py, PyAny>> =
            value.extract().map_err(|_| refuse(value, "columns", "a list of column names"))?;
        let columns = names.iter().map(|name| name.extract().map(|PyColumn(column)| column));
        Ok(Self(columns.collect::<PyResult<_>>()?))
    }
}

/// Ids: a list, or anything that has `tolist`, such as an array.
pub(crate) struct PyIds(pub(crate) Vec<u32>);

impl<'py> FromPyObject<'_, 'py> for PyIds {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let list =
            if value.hasattr("tolist")? { value.call_method0("tolist")? } else { value.to_owned() };
        list.extract().map(Self).map_err(|_| refuse(value, "ids", "a list or array of ids"))
    }
}

/// How many documents the reference engine encodes too.
pub(crate) struct PyVerify(pub(crate) u32);

impl<'py> FromPyObject<'_, 'py> for PyVerify {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let number = value.extract().ok().filter(|_| !value.is_instance_of::<PyBool>());
        number
            .map(Self)
            .ok_or_else(|| refuse(value, "verify", "a whole number of documents, 0 for none"))
    }
}

/// The most bytes of a thread's caches: more than there are words to remember.
const LARGEST_CACHE: u64 = 1 << 30;

/// Bytes that a thread's caches may take, as [`bytes_given`] reads them.
pub(crate) struct PyCacheSize(pub(crate) usize);

impl<'py> FromPyObject<'_, 'py> for PyCacheSize {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let bytes = bytes_given(value).filter(|bytes| *bytes <= LARGEST_CACHE);
        bytes.and_then(|bytes| usize::try_from(bytes).ok()).map(Self).ok_or_else(|| {
            let wanted = "a number of bytes or a text such as \"32MB\", up to \"1GiB\"";
            refuse(value, "cache_size", wanted)
        })
    }
}

/// Keyword arguments of a chat template.
pub(crate) struct PyTemplateKwargs(pub(crate) Map);

impl<'py> FromPyObject<'_, 'py> for PyTemplateKwargs {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if value.is_none() {
            return Ok(Self(Map::default()));
        }
        match template_value(&value, KWARGS, 0)? {
            Value::Map(map) => Ok(Self((*map).clone())),
            _ => Err(refuse(value, KWARGS, "a dict with names as keys")),
        }
    }
}

const KWARGS: &str = "chat_template_kwargs";

/// A conversation as a record of a file would hold it, from its messages and its tools if any.
pub(crate) struct PyConversation(pub(crate) Map);

impl PyConversation {
    /// The conversation, read as one of a file is.
    pub(crate) fn read(&self) -> fastpack_core::Result<Conversation> {
        conversation(&self.0)
            .map_err(|fault| fastpack_core::Error::option("messages", fault.message))
    }
}

impl<'py> FromPyObject<'_, 'py> for PyConversation {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (messages, tools): (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>) = value.extract()?;
        let mut record = Map::default();
        record.insert("messages".into(), template_value(&messages, "messages", 0)?);
        if let Some(tools) = tools {
            record.insert("tools".into(), template_value(&tools, "tools", 0)?);
        }
        Ok(Self(record))
    }
}

/// What a template can see of a Python value, given for `option`, that stands in so many others.
fn template_value(value: &Bound<'_, PyAny>, option: &str, depth: usize) -> PyResult<Value> {
    if depth > MAX_DEPTH {
        let wanted = format!("nested no deeper than {MAX_DEPTH} lists and dicts");
        Err(refuse(value.as_borrowed(), option, &wanted))
    } else if value.is_none() {
        Ok(Value::Null)
    } else if let Ok(truth) = value.cast::<PyBool>() {
        Ok(Value::Bool(truth.is_true()))
    } else if value.is_instance_of::<PyInt>() {
        let small = value.extract().map(Value::Int);
        small.map_err(|_| refuse(value.as_borrowed(), option, "integers of at most 64 bits"))
    } else if let Ok(number) = value.cast::<PyFloat>() {
        Ok(Value::Float(number.extract()?))
    } else if let Ok(text) = value.cast::<PyString>() {
        let text = text.extract::<String>();
        let whole = |_| refuse(value.as_borrowed(), option, "text without half a surrogate pair");
        Ok(Value::String(text.map_err(whole)?.into()))
    } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items = value.try_iter()?.map(|item| template_value(&item?, option, depth + 1));
        Ok(Value::List(items.collect::<PyResult<Vec<_>>>()?.into()))
    } else if let Ok(dict) = value.cast::<PyDict>() {
        let items = dict.iter().map(|(key, item)| {
            let name = key.extract::<String>();
            let name = name.map_err(|_| refuse(key.as_borrowed(), option, "names as keys"))?;
            Ok((name.into(), template_value(&item, option, depth + 1)?))
        });
        Ok(Value::Map(items.collect::<PyResult<Map>>()?.into()))
    } else if has_list(value) {
        template_value(&value.call_method0("tolist")?, option, depth + 1)
    } else {
        Err(refuse(value.as_borrowed(), option, "what JSON can hold"))
    }
}
