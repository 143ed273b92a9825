//! Text to ids for callers who pack by other means: what stands behind `fastpack.Tokenizer`.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, make_array};
use arrow::datatypes::DataType;
use arrow_pyarrow::PyArrowType;
use chrono::Local;
use fastpack_core::batch::{Batch, BatchOptions, Encoders};
use fastpack_core::{Control, Result, pipeline};
use fastpack_tokenize::{Encoding, Pretrained, SpecialTokens};
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyList, PyString};

use crate::error;
use crate::job::{PyChatTemplate, Renderer};
use crate::options::{PyCacheSize, PyConversation, PyThreads, PyVerify};
use crate::pretrained::PyPretrained;
use crate::supervise::{self, Interrupted};

/// Texts up to this many bytes are encoded at once, in less time than a thread takes to start.
const SHORT: usize = 1 << 12;

/// Flat ids, where those of each text begin, and the characters that they come from.
type Flat<'py> =
    (Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<i64>>, Option<Bound<'py, PyArray2<i32>>>);

/// The ids of a conversation, and which of them are trained.
type Chatted<'py> = (Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<i32>>);

/// A tokenizer with encoders that are kept from call to call.
#[pyclass(name = "Encoders", module = "fastpack._fastpack", frozen)]
#[derive(Debug)]
pub(crate) struct PyEncoders {
    pretrained: Arc<Pretrained>,
    encoders: Arc<Encoders>,
}

#[pymethods]
impl PyEncoders {
    #[new]
    fn new(pretrained: &PyPretrained, cache_size: PyCacheSize) -> Self {
        let tokenizer = pretrained.pretrained.tokenizer.clone().with_cache_bytes(cache_size.0);
        Self {
            pretrained: Arc::clone(&pretrained.pretrained),
            encoders: Arc::new(Encoders::new(tokenizer)),
        }
    }

    /// The ids of one text.
    fn encode<'py>(
        &self,
        py: Python<'py>,
        text: &Bound<'py, PyAny>,
        add_special_tokens: bool,
    ) -> PyResult<Bound<'py, PyArray1<i32>>> {
        let text = text_of(text, None)?;
        let short = text.len() <= SHORT;
        let special = special(add_special_tokens);
        let encoders = Arc::clone(&self.encoders);
        let encode = move |control: &Control| {
            let mut encoding = Encoding::default();
            encoders.with(control, |encoder| {
                Ok(encoder.encode(&text, &[], special, &mut encoding)?)
            })?;
            Ok((encoding.ids, text))
        };
        let (ids, _text) = if short {
            encode(&Control::default()).map_err(error::to_py)?
        } else {
            supervise::run(py, None, Interrupted::Abandon, move |control, _| encode(control))?
        };
        Ok(signed(ids).into_pyarray(py))
    }

    /// The ids of many texts: a list of `str`, or a list of Arrow arrays of strings.
    fn encode_batch<'py>(
        &self,
        py: Python<'py>,
        texts: PyTexts,
        add_special_tokens: bool,
        return_offsets: bool,
        verify: PyVerify,
        threads: PyThreads,
    ) -> PyResult<Flat<'py>> {
        let encoders = Arc::clone(&self.encoders);
        let options = BatchOptions {
            special: special(add_special_tokens),
            characters: return_offsets,
            verify: verify.0 as usize,
            threads: threads.0,
        };
        // The texts come back, so that they are let go here and not on a thread that Python does not know.
        let (batch, _texts) = supervise::run(py, None, Interrupted::Abandon, move |control, _| {
            let batch = texts.encode(|texts| match texts {
                Strings::Python(texts) => encoders.encode(texts, options, control),
                Strings::Arrow(texts) => encoders.encode(texts, options, control),
            })?;
            Ok((batch, texts))
        })?;
        let Batch { ids, offsets, characters } = batch;
        let characters = return_offsets.then(|| {
            let bound = |at: usize| i32::try_from(at).unwrap_or(i32::MAX);
            let rows = characters.iter().map(|range| [bound(range.start), bound(range.end)]);
            Array2::from(rows.collect::<Vec<_>>()).into_pyarray(py)
        });
        Ok((signed(ids).into_pyarray(py), offsets.into_pyarray(py), characters))
    }

    /// The text of a conversation.
    fn render(
        &self,
        py: Python<'_>,
        conversation: PyConversation,
        chat_template: PyChatTemplate,
    ) -> PyResult<String> {
        let renderer = Renderer::new(&self.pretrained, chat_template);
        supervise::run(py, None, Interrupted::Abandon, move |_, caller| {
            let template = renderer.template(Local::now().naive_local(), caller)?;
            pipeline::render(&template, &conversation.read()?)
        })
    }

    /// The ids of a conversation, and for each whether the assistant wrote it.
    fn chat<'py>(
        &self,
        py: Python<'py>,
        conversation: PyConversation,
        chat_template: PyChatTemplate,
        mask: bool,
    ) -> PyResult<Chatted<'py>> {
        let renderer = Renderer::new(&self.pretrained, chat_template);
        let encoders = Arc::clone(&self.encoders);
        let chat = supervise::run(py, None, Interrupted::Abandon, move |control, caller| {
            let template = renderer.template(Local::now().naive_local(), caller)?;
            let conversation = conversation.read()?;
            encoders
                .with(control, |encoder| pipeline::chat(&template, &conversation, mask, encoder))
        })?;
        let trained: Vec<i32> = chat.trained.into_iter().map(i32::from).collect();
        Ok((signed(chat.ids).into_pyarray(py), trained.into_pyarray(py)))
    }
}

fn special(add: bool) -> SpecialTokens {
    if add { SpecialTokens::Add } else { SpecialTokens::Omit }
}

/// Ids as the arrays of the ecosystem hold them; a vocabulary has far fewer than 2^31.
fn signed(ids: Vec<u32>) -> Vec<i32> {
    ids.into_iter().map(u32::cast_signed).collect()
}

/// Texts of the caller, read where they lie.
pub(crate) enum PyTexts {
    Python(Vec<PyBackedStr>),
    Arrow(Vec<ArrayRef>),
}

/// All texts of a call.
enum Strings<'a> {
    Python(&'a [PyBackedStr]),
    Arrow(&'a [&'a str]),
}

impl PyTexts {
    fn encode(&self, encode: impl FnOnce(Strings<'_>) -> Result<Batch>) -> Result<Batch> {
        match self {
            Self::Python(texts) => encode(Strings::Python(texts)),
            Self::Arrow(arrays) => {
                let mut texts = Vec::with_capacity(arrays.iter().map(Array::len).sum());
                for array in arrays {
                    match array.data_type() {
                        DataType::LargeUtf8 => {
                            texts.extend(array.as_string::<i64>().iter().flatten());
                        }
                        DataType::Utf8View => {
                            texts.extend(array.as_string_view().iter().flatten());
                        }
                        _ => texts.extend(array.as_string::<i32>().iter().flatten()),
                    }
                }
                encode(Strings::Arrow(&texts))
            }
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for PyTexts {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let list = value.cast::<PyList>()?;
        if let Ok(first) = list.get_item(0)
            && first.hasattr("__arrow_c_array__")?
        {
            return arrays(&list).map(Self::Arrow);
        }
        let texts = list.iter().enumerate().map(|(at, text)| text_of(&text, Some(at)));
        texts.collect::<PyResult<_>>().map(Self::Python)
    }
}

/// Arrow arrays that hold a string in every place.
fn arrays(list: &Bound<'_, PyList>) -> PyResult<Vec<ArrayRef>> {
    let mut before = 0;
    let mut arrays = Vec::with_capacity(list.len());
    for array in list.iter() {
        let PyArrowType(data): PyArrowType<ArrayData> = array.extract()?;
        let array = make_array(data);
        if !matches!(array.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
            let reason = format!("must hold strings, not {}", array.data_type());
            return Err(error::wrong_type(list.py(), "texts", &reason));
        }
        if let Some(at) = (0..array.len()).find(|at| array.is_null(*at)) {
            let reason = format!("number {} is null", before + at);
            return Err(error::option(list.py(), "texts", &reason));
        }
        before += array.len();
        arrays.push(array);
    }
    Ok(arrays)
}

/// A text, number `at` of many.
fn text_of(text: &Bound<'_, PyAny>, at: Option<usize>) -> PyResult<PyBackedStr> {
    let (option, place) =
        at.map_or(("text", String::new()), |at| ("texts", format!("number {at} ")));
    let Ok(string) = text.cast::<PyString>() else {
        let reason = format!("{place}must be a str, not {}", text.get_type().qualname()?);
        return Err(error::wrong_type(text.py(), option, &reason));
    };
    PyBackedStr::try_from(string.clone()).map_err(|_| {
        let reason = format!("{place}holds half of a surrogate pair, which is no text");
        error::option(text.py(), option, &reason)
    })
}
