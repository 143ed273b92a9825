//! Converts Python arguments to options of the core. It holds no defaults.

pub(super) mod byte_sizes;
pub(super) mod inputs;
pub(super) mod objective;
pub(super) mod option_words;
pub(super) mod output;
pub(super) mod packing;
mod source_shares;
pub(super) mod storage;
pub(super) mod stream;
pub(super) mod values;

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};

use chrono::{Local, NaiveDateTime};
use fastpack_core::config::{
    Bos, Eos, ImageOptions, MOST_THREADS, MaxLost, OnBadRecord, Options, PackOptions, PadTo,
    RowColumn, RowOptions, SpecialInText, TokenOptions, TokenTypes, TrainOn, TrainOnEos,
    TrainedTokens, TurnParts, Turns, WorkOptions,
};
use fastpack_core::json::{Json, Map};
use fastpack_core::pipeline::JobTemplate;
use fastpack_core::record::{Conversation, MAX_DEPTH, MessageForms, conversation};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::callers::values_to_json::{digits, has_list};
use crate::calls::pictures::{PictureParts, PyRemotePictures};
use crate::convert::{counts, field, read_share, refuse, word, words};
use crate::error;
use crate::options::byte_sizes::read_byte_size;
use crate::options::objective::PyObjectiveOptions;
use crate::options::packing::{PyPackOptions, PyPadding};
use crate::options::source_shares::{PyShares, PySourceShare};

/// The options that decide the content of the output, and those for losses, verification and threads.
#[pyclass(name = "Options", module = "fastpack._fastpack", frozen)]
#[derive(Debug)]
pub(crate) struct PyOptions(pub(crate) Options, pub(crate) Option<PictureParts>);

#[pymethods]
impl PyOptions {
    #[new]
    #[pyo3(signature = (*, packing, objective, padding, train_on, turns, special_tokens, chat_template, on_bad_record, max_lost, columns, verify, threads, images, shares))]
    #[expect(clippy::too_many_arguments, reason = "one for each keyword of the Python functions")]
    fn new(
        packing: &PyPackOptions,
        objective: &PyObjectiveOptions,
        padding: PyPadding,
        train_on: PyTrainOn,
        turns: PyTurns,
        special_tokens: PySpecialTokens,
        chat_template: PyRendering,
        on_bad_record: PyOnBadRecord,
        max_lost: Option<PyMaxLost>,
        columns: Option<PyColumns>,
        verify: PyVerify,
        threads: PyThreads,
        images: Option<PyImages>,
        shares: Option<(PyShares, Vec<PySourceShare>)>,
    ) -> PyResult<Self> {
        let padded = padding.to != PadTo::Nothing;
        let mut columns =
            columns.map_or_else(|| objective.objective.columns(padded), |columns| columns.0);
        if let Some(images) = &images {
            images.options.add_columns(&mut columns);
        }
        let pictures = images.as_ref().and_then(|images| images.remote.clone());
        let (most_images, most_image_tokens) = images
            .as_ref()
            .map_or((None, None), |images| (images.most_images, images.most_image_tokens));
        let options = Options {
            tokens: TokenOptions {
                train_on: if objective.objective.takes_all() {
                    TrainedTokens::Named(TrainOn::All)
                } else {
                    train_on.0
                },
                turns: turns.0,
                train_on_eos: special_tokens.train_on_eos,
                eos: special_tokens.eos,
                bos: special_tokens.bos,
                special_in_text: special_tokens.in_text,
                decode_arguments: chat_template.decode_arguments,
                on_bad_record: on_bad_record.0,
                now: chat_template.now,
                documents: objective.objective.documents(),
                classes: objective.classes.clone(),
                images: images.map(|images| images.options),
            },
            rows: RowOptions {
                packing: PackOptions {
                    max_target_length: objective.max_target_length,
                    max_images_per_pack: most_images,
                    max_image_tokens_per_pack: most_image_tokens,
                    ..packing.0.clone()
                },
                pad_to: padding.to,
                padding_side: padding.side,
                pad_token_id: padding.token_id,
                shift_labels: objective.shift_labels,
                columns,
                objective: objective.objective.clone(),
                copies: objective.copies,
                shares: shares.map(|(shares, sources)| shares.of(sources)),
            },
            work: WorkOptions {
                max_lost: max_lost.map(|most| most.0),
                verify: verify.0,
                threads: threads.0,
                started: Local::now().naive_local(),
            },
        };
        options.validate().map_err(error::to_py)?;
        Ok(Self(options, pictures))
    }
}

words!(
    /// The choice of trained tokens, in a word.
    PyTrainOnWord(TrainOn), "train_on"
);

/// The choice of trained tokens: a word, or a `fastpack.TrainOn`.
pub(crate) struct PyTrainOn(TrainedTokens);

impl<'py> FromPyObject<'_, 'py> for PyTrainOn {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if !value.hasattr("mask_reasoning_content")? {
            if !value.is_instance_of::<PyString>() {
                return Err(refuse(
                    value,
                    "train_on",
                    "a word such as \"assistant\", or a fastpack.TrainOn",
                ));
            }
            return value.extract().map(|PyTrainOnWord(word)| Self(TrainedTokens::Named(word)));
        }
        let switch = |name: &str| value.getattr(name)?.extract();
        Ok(Self(TrainedTokens::of(TurnParts {
            roles: value.getattr("roles")?.extract()?,
            mask_reasoning_content: switch("mask_reasoning_content")?,
            mask_tool_calls: switch("mask_tool_calls")?,
            mask_generation_prompt: switch("mask_generation_prompt")?,
            drop_history_reasoning_content: switch("drop_history_reasoning_content")?,
        })))
    }
}

/// The time that a template sees, and the form of arguments, of a `fastpack.ChatTemplate`.
pub(crate) struct PyRendering {
    now: Option<NaiveDateTime>,
    decode_arguments: bool,
}

impl<'py> FromPyObject<'_, 'py> for PyRendering {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let now: Option<Bound<'py, PyAny>> = field(&value, "now")?;
        let without_zone = PyDict::new(value.py());
        without_zone.set_item("tzinfo", value.py().None())?;
        let local = |now: Bound<'py, PyAny>| {
            now.call_method("replace", (), Some(&without_zone))?.extract::<NaiveDateTime>()
        };
        Ok(Self {
            now: now.map(local).transpose()?,
            decode_arguments: field(&value, "decode_arguments")?,
        })
    }
}

/// The pictures of conversations, of a `fastpack.tokenizer.pictures.native.NativeImages`.
pub(crate) struct PyImages {
    options: ImageOptions,
    /// The storage of those that lie elsewhere, if the call may read them.
    remote: Option<PictureParts>,
    most_images: Option<NonZeroU32>,
    most_image_tokens: Option<NonZeroU32>,
}

impl<'py> FromPyObject<'_, 'py> for PyImages {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let processor: String = field(&value, "configuration")?;
        let processor = ImageOptions::processor(&processor).map_err(error::to_py)?;
        let types: Vec<(PyColumn, Vec<(u32, i32)>)> = field(&value, "token_types")?;
        let token_types = types.into_iter().map(|(PyColumn(column), mut types)| {
            types.sort_unstable();
            TokenTypes { column, types }
        });
        let most_images: Option<PyMostImages> = field(&value, "max_images_per_pack")?;
        let most_image_tokens: Option<PyMostImageTokens> =
            field(&value, "max_image_tokens_per_pack")?;
        let options = ImageOptions {
            marker: field(&value, "marker")?,
            delimiters: field(&value, "delimiters")?,
            adds_special_tokens: field(&value, "adds_special_tokens")?,
            processor,
            token_types: token_types.collect(),
            folder: field(&value, "folder")?,
            embed: field(&value, "embed")?,
            depends_on_number: field(&value, "depends_on_number")?,
            fetch: field(&value, "fetch")?,
        };
        let remote: Option<Py<PyRemotePictures>> = field(&value, "remote")?;
        Ok(Self {
            options,
            remote: remote.map(|remote| remote.get().parts()),
            most_images: most_images.map(|most| most.0),
            most_image_tokens: most_image_tokens.map(|most| most.0),
        })
    }
}

counts!(
    /// The most pictures of a row.
    PyMostImages(NonZeroU32), "reading.images.max_images_per_pack", i32::MAX.cast_unsigned()
);
counts!(
    /// The most tokens of pictures in a row.
    PyMostImageTokens(NonZeroU32), "reading.images.max_image_tokens_per_pack", i32::MAX.cast_unsigned()
);
words!(
    /// The documents that a conversation becomes.
    PyTurns(Turns), "turns"
);
words!(
    /// The choice of trained end-of-turn tokens.
    PyTrainOnEos(TrainOnEos), "special_tokens.train_on_eos"
);
words!(
    /// The handling of control tokens in texts of users and tools.
    PySpecialInText(SpecialInText), "special_tokens.in_text"
);
words!(
    /// The handling of records that cannot be read.
    PyOnBadRecord(OnBadRecord), "on_bad_record"
);
words!(
    /// A column of the rows.
    PyColumn(RowColumn), "columns"
);

counts!(
    /// The number of worker threads.
    PyThreads(NonZeroUsize), "threads", MOST_THREADS
);
counts!(
    /// The approximate number of records that a scan samples.
    PySample(NonZeroU64), "sample", u64::MAX
);
counts!(
    /// The number of rows in a batch.
    PyBatchSize(NonZeroUsize), "batch_size", usize::MAX
);

/// The choice of end-of-text tokens: `"auto"`, or a boolean.
pub(crate) struct PyEos(Eos);

impl<'py> FromPyObject<'_, 'py> for PyEos {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(always) = value.cast::<PyBool>() {
            return Ok(Self(if always.is_true() { Eos::Always } else { Eos::Never }));
        }
        match value.extract::<&str>() {
            Ok("auto") => Ok(Self(Eos::Auto)),
            _ => Err(refuse(value, "special_tokens.eos", "\"auto\", True or False")),
        }
    }
}

/// The choice of beginning-of-text tokens: `"auto"`, `True` or `False`.
pub(crate) struct PyBos(Bos);

impl<'py> FromPyObject<'_, 'py> for PyBos {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(always) = value.cast::<PyBool>() {
            return Ok(Self(if always.is_true() { Bos::Always } else { Bos::Never }));
        }
        match value.extract::<&str>() {
            Ok("auto") => Ok(Self(Bos::Auto)),
            _ => Err(refuse(value, "special_tokens.bos", "\"auto\", True or False")),
        }
    }
}

/// The special tokens of documents, of a `fastpack.SpecialTokens`.
pub(crate) struct PySpecialTokens {
    eos: Eos,
    bos: Bos,
    in_text: SpecialInText,
    train_on_eos: Option<TrainOnEos>,
}

impl<'py> FromPyObject<'_, 'py> for PySpecialTokens {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let ends: Option<PyTrainOnEos> = field(&value, "train_on_eos")?;
        Ok(Self {
            eos: field::<PyEos>(&value, "eos")?.0,
            bos: field::<PyBos>(&value, "bos")?.0,
            in_text: field::<PySpecialInText>(&value, "in_text")?.0,
            train_on_eos: ends.map(|ends| ends.0),
        })
    }
}

/// The largest share of documents or tokens that may be lost: a number, or a text such as `0.1%`.
pub(crate) struct PyMaxLost(MaxLost);

impl<'py> FromPyObject<'_, 'py> for PyMaxLost {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        read_share(value)
            .and_then(MaxLost::new)
            .map(Self)
            .ok_or_else(|| refuse(value, "max_lost", "a share such as \"0.1%\" or 0.001"))
    }
}

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

/// Token ids: a list, or an object with `tolist`, such as an array.
pub(crate) struct PyIds(pub(crate) Vec<u32>);

impl<'py> FromPyObject<'_, 'py> for PyIds {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let list =
            if value.hasattr("tolist")? { value.call_method0("tolist")? } else { value.to_owned() };
        list.extract().map(Self).map_err(|_| refuse(value, "ids", "a list or array of ids"))
    }
}

/// The number of documents that the reference engine encodes again, as a check.
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

/// The largest caches, in bytes: more than all distinct words of an input need.
const LARGEST_CACHE: u64 = 1 << 30;

/// The size of the word caches in bytes, as [`read_byte_size`] reads it.
pub(crate) struct PyCacheSize(pub(crate) usize);

impl<'py> FromPyObject<'_, 'py> for PyCacheSize {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let bytes = read_byte_size(value).filter(|bytes| *bytes <= LARGEST_CACHE);
        bytes.and_then(|bytes| usize::try_from(bytes).ok()).map(Self).ok_or_else(|| {
            let wanted = "a number of bytes or a text such as \"64MB\", up to \"1GiB\"";
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
            Json::Map(map) => Ok(Self((*map).clone())),
            _ => Err(refuse(value, KWARGS, "a dict with names as keys")),
        }
    }
}

const KWARGS: &str = "chat_template.variables";

/// A conversation: its messages, and its tools if any, as a JSON object like those in a file.
pub(crate) struct PyConversation(pub(crate) Map);

impl PyConversation {
    /// Parses the conversation in the same way as one of a file that `template` renders.
    pub(crate) fn read(&self, template: &JobTemplate) -> fastpack_core::Result<Conversation> {
        let takes = match template {
            JobTemplate::Ready(template) => template.message_forms(),
            JobTemplate::Refused(_) => MessageForms::ALL,
        };
        conversation(&self.0, takes)
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

/// Converts a Python value, given for `option`, to a template value; `depth` is the number of values around
/// it.
fn template_value(value: &Bound<'_, PyAny>, option: &str, depth: usize) -> PyResult<Json> {
    if depth > MAX_DEPTH {
        let wanted = format!("nested no deeper than {MAX_DEPTH} lists and dicts");
        Err(refuse(value.as_borrowed(), option, &wanted))
    } else if value.is_none() {
        Ok(Json::Null)
    } else if let Ok(truth) = value.cast::<PyBool>() {
        Ok(Json::Bool(truth.is_true()))
    } else if value.is_instance_of::<PyInt>() {
        let known = value.extract().map(Json::Int).ok();
        // Python writes those that do not fit 64 bits.
        let written = || digits(value).ok().and_then(|digits| Json::integer(&digits));
        known
            .or_else(written)
            .ok_or_else(|| refuse(value.as_borrowed(), option, "an integer that Python can write"))
    } else if let Ok(number) = value.cast::<PyFloat>() {
        Ok(Json::Float(number.extract()?))
    } else if let Ok(text) = value.cast::<PyString>() {
        let text = text.extract::<String>();
        let whole = |_| refuse(value.as_borrowed(), option, "text without half a surrogate pair");
        Ok(Json::String(text.map_err(whole)?.into()))
    } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items = value.try_iter()?.map(|item| template_value(&item?, option, depth + 1));
        Ok(Json::List(items.collect::<PyResult<Vec<_>>>()?.into()))
    } else if let Ok(dict) = value.cast::<PyDict>() {
        let items = dict.iter().map(|(key, item)| {
            let name = key.extract::<String>();
            let name = name.map_err(|_| refuse(key.as_borrowed(), option, "names as keys"))?;
            Ok((name.into(), template_value(&item, option, depth + 1)?))
        });
        Ok(Json::Map(items.collect::<PyResult<Map>>()?.into()))
    } else if has_list(value) {
        template_value(&value.call_method0("tolist")?, option, depth + 1)
    } else {
        Err(refuse(value.as_borrowed(), option, "what JSON can hold"))
    }
}
