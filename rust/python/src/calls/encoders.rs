//! [`PyEncoders`]: the native side of `fastpack.Tokenizer`, which turns text into ids without packing.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, make_array};
use arrow::datatypes::DataType;
use arrow_pyarrow::PyArrowType;
use chrono::Local;
use fastpack_core::document::encoders::{BatchOptions, EncodedTexts, Encoders};
use fastpack_core::{Control, Result, pipeline};
use fastpack_tokenize::{Encoding, Pretrained, SpecialTokens};
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyList, PyString};

use crate::arrays;
use crate::calls::pretrained::PyPretrained;
use crate::error;
use crate::interruptible::{self, Interrupted};
use crate::job::{PyChatTemplate, TemplateParts};
use crate::options::{PyCacheSize, PyConversation, PyThreads, PyVerify};

/// Texts of up to this many bytes are encoded on the calling thread: that takes less time than starting a
/// thread.
const SHORT: usize = 1 << 12;

/// The ids of all texts end to end, the offset of each text, and the character range of each id if wanted.
type EncodedArrays<'py> =
    (Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<i64>>, Option<Bound<'py, PyArray2<i32>>>);

/// The ids of a conversation, and a mask that is 1 at the trained ones.
type MaskedChat<'py> = (Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<i32>>);

/// A tokenizer, with encoders that are reused by later calls.
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

    /// Encodes one text.
    fn encode<'py>(
        &self,
        py: Python<'py>,
        text: &Bound<'py, PyAny>,
        add_special_tokens: bool,
    ) -> PyResult<Bound<'py, PyArray1<i32>>> {
        arrays::ready(py)?;
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
            interruptible::run(py, None, Interrupted::Abandon, move |control, _| encode(control))?
        };
        Ok(signed(ids).into_pyarray(py))
    }

    /// Encodes many texts: a list of `str`, or a list of Arrow arrays of strings.
    fn encode_batch<'py>(
        &self,
        py: Python<'py>,
        texts: PyTexts,
        add_special_tokens: bool,
        return_offsets: bool,
        verify: PyVerify,
        threads: PyThreads,
    ) -> PyResult<EncodedArrays<'py>> {
        arrays::ready(py)?;
        let encoders = Arc::clone(&self.encoders);
        let options = BatchOptions {
            special: special(add_special_tokens),
            characters: return_offsets,
            verify: verify.0 as usize,
            threads: threads.0,
        };
        // The job returns the texts, so that they are dropped here: its own thread is not attached to Python.
        let (batch, _texts) =
            interruptible::run(py, None, Interrupted::Abandon, move |control, _| {
                let batch = texts.encode(|texts| match texts {
                    TextSlices::Python(texts) => encoders.encode(texts, options, control),
                    TextSlices::Arrow(texts) => encoders.encode(texts, options, control),
                })?;
                Ok((batch, texts))
            })?;
        let EncodedTexts { ids, offsets, characters } = batch;
        let characters = return_offsets.then(|| {
            let bound = |at: usize| i32::try_from(at).unwrap_or(i32::MAX);
            let rows = characters.iter().map(|range| [bound(range.start), bound(range.end)]);
            Array2::from(rows.collect::<Vec<_>>()).into_pyarray(py)
        });
        Ok((signed(ids).into_pyarray(py), offsets.into_pyarray(py), characters))
    }

    /// Renders a conversation with a chat template.
    fn render(
        &self,
        py: Python<'_>,
        conversation: PyConversation,
        chat_template: PyChatTemplate,
    ) -> PyResult<String> {
        let renderer = TemplateParts::new(&self.pretrained, chat_template);
        interruptible::run(py, None, Interrupted::Abandon, move |_, caller| {
            let template = renderer.template(Local::now().naive_local(), caller)?;
            pipeline::render(&template, &conversation.read(&template)?)
        })
    }

    /// Renders and encodes a conversation. With `mask`, the mask is 1 at the ids that the assistant wrote.
    fn chat<'py>(
        &self,
        py: Python<'py>,
        conversation: PyConversation,
        chat_template: PyChatTemplate,
        mask: bool,
    ) -> PyResult<MaskedChat<'py>> {
        arrays::ready(py)?;
        let renderer = TemplateParts::new(&self.pretrained, chat_template);
        let encoders = Arc::clone(&self.encoders);
        let chat = interruptible::run(py, None, Interrupted::Abandon, move |control, caller| {
            let template = renderer.template(Local::now().naive_local(), caller)?;
            let conversation = conversation.read(&template)?;
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

/// Casts ids to int32, the type of token arrays in the ecosystem. A vocabulary has far fewer than 2^31 ids.
fn signed(ids: Vec<u32>) -> Vec<i32> {
    ids.into_iter().map(u32::cast_signed).collect()
}

/// The texts of a call to `encode_batch`, which are read without a copy.
pub(crate) enum PyTexts {
    Python(Vec<PyBackedStr>),
    Arrow(Vec<ArrayRef>),
}

/// The texts of a call as slices, for the core.
enum TextSlices<'a> {
    Python(&'a [PyBackedStr]),
    Arrow(&'a [&'a str]),
}

impl PyTexts {
    fn encode(
        &self,
        encode: impl FnOnce(TextSlices<'_>) -> Result<EncodedTexts>,
    ) -> Result<EncodedTexts> {
        match self {
            Self::Python(texts) => encode(TextSlices::Python(texts)),
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
                encode(TextSlices::Arrow(&texts))
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

/// Reads Arrow arrays of strings. An array of another type, or with a null, is refused.
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

/// Reads one text; `at` is its index in a list, if it is in one.
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
