//! Converts Python arguments to the sources of a run and their reading settings. It holds no defaults.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;

use fastpack_core::config::{
    Fields, Inputs, MathPrompt, Part, Prompt, PromptParts, Reading, RecordSource, ShapeName, Source,
};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

use crate::callers::filesystem::PyFileSystem;
use crate::callers::reiterable::PyReiterable;
use crate::convert::{counts, field, refuse, word, words};
use crate::error;
use crate::interruptible::Caller;
use crate::options::storage::PyStorageOptions;

/// The inputs of a run: its sources, and whether folders are searched recursively.
#[pyclass(name = "Inputs", module = "fastpack._fastpack", frozen)]
#[derive(Debug)]
pub(crate) struct PyInputs(Inputs, Vec<(usize, PyReiterable)>, Option<Arc<Py<PyAny>>>);

#[pymethods]
impl PyInputs {
    #[new]
    #[pyo3(signature = (*, sources, recursive, storage))]
    fn new(sources: Vec<PyRef<'_, PySource>>, recursive: bool, storage: &PyStorageOptions) -> Self {
        let numbered = |(number, source): (usize, &PyRef<'_, PySource>)| {
            source.1.clone().map(|records| (number, records))
        };
        let records = sources.iter().enumerate().filter_map(numbered).collect();
        let sources = sources.iter().map(|source| source.0.clone()).collect();
        let inputs = Inputs { sources, recursive, storage: storage.0.clone() };
        Self(inputs, records, storage.1.clone())
    }
}

impl PyInputs {
    /// The inputs of a job, before it is known who reads them.
    pub(crate) fn unread(&self) -> UnreadInputs {
        UnreadInputs(self.0.clone(), self.2.clone())
    }

    /// The sources that Python gives, by their numbers.
    pub(crate) fn records(&self) -> Vec<(usize, PyReiterable)> {
        self.1.clone()
    }
}

/// The inputs of a job, and the file system that they are read from, if Python gives one.
#[derive(Debug)]
pub(crate) struct UnreadInputs(Inputs, Option<Arc<Py<PyAny>>>);

impl UnreadInputs {
    /// The inputs, whose file system is read by the thread that waits for the job.
    pub(crate) fn read_by(self, caller: &Caller) -> Inputs {
        let Self(mut inputs, filesystem) = self;
        inputs.storage.file_system = filesystem.map(|it| PyFileSystem::read_by(it, caller));
        inputs
    }
}

/// A source: files, or records of a Python object, that are read with the same settings.
#[pyclass(name = "Source", module = "fastpack._fastpack", frozen)]
#[derive(Debug)]
pub(crate) struct PySource(pub(crate) Source, Option<PyReiterable>);

/// The name of records that a Python object gives, their identity if they have one, what else is known of them, and the
/// object.
#[derive(FromPyObject)]
struct PyRecordSource(String, Option<String>, String, Py<PyAny>);

#[pymethods]
impl PySource {
    #[new]
    #[pyo3(signature = (*, patterns, reading, limit, repeat, records))]
    fn new(
        patterns: Vec<PathBuf>,
        reading: PyReading,
        limit: Option<PyLimit>,
        repeat: PyRepeat,
        records: Option<PyRecordSource>,
    ) -> PyResult<Self> {
        let (records, object) = match records {
            Some(PyRecordSource(name, known_as, kind, object)) => {
                (Some(RecordSource { name, known_as, kind }), Some(PyReiterable::new(object)))
            }
            None => (None, None),
        };
        let limit = limit.map(|limit| limit.0);
        let source = Source { patterns, reading: reading.0, limit, repeat: repeat.0, records };
        source.validate().map_err(error::to_py)?;
        Ok(Self(source, object))
    }
}

/// The shape and the reading of records, of a `fastpack.Reading`.
pub(crate) struct PyReading(Reading);

impl<'py> FromPyObject<'_, 'py> for PyReading {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let shape: Option<PyShape> = field(&value, "shape")?;
        let prompt: Option<PyPrompt> = field(&value, "prompt")?;
        let separator: Option<PySeparator> = field(&value, "separator")?;
        Ok(Self(Reading {
            shape: shape.map(|shape| shape.0),
            fields: field::<PyFields>(&value, "fields")?.0,
            prompt: prompt.map(|prompt| prompt.0),
            examples: field::<PyExamples>(&value, "examples")?.0,
            separator: separator.map(|separator| separator.0),
        }))
    }
}

words!(
    /// The shape of a source's records.
    PyShape(ShapeName), "reading.shape"
);
words!(
    /// A part of a record, such as the prompt or the completion.
    PyPart(Part), "reading.fields"
);

counts!(
    /// The most records that are read of a source.
    PyLimit(NonZeroU64), "limit", u64::MAX
);
counts!(
    /// The number of times that a source is read.
    PyRepeat(NonZeroU64), "repeat", u64::MAX
);

/// The text that separates documents in a text file.
pub(crate) struct PySeparator(String);

impl<'py> FromPyObject<'_, 'py> for PySeparator {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        value.extract().map(Self).map_err(|_| refuse(value, "reading.separator", "a text"))
    }
}

/// The field names of the parts of a record: a dict from part to field name, or `None`.
pub(crate) struct PyFields(Fields);

impl<'py> FromPyObject<'_, 'py> for PyFields {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let mut fields = Fields::default();
        if value.is_none() {
            return Ok(Self(fields));
        }
        let refused =
            |_| refuse(value, "reading.fields", "a dict of parts and the names of their fields");
        let parts: Vec<(Bound<'py, PyAny>, String)> = value
            .cast::<PyDict>()
            .map_err(PyErr::from)
            .and_then(|dict| dict.items().extract())
            .map_err(refused)?;
        for (part, field) in parts {
            let PyPart(part) = part.extract()?;
            fields.0.insert(part, field);
        }
        Ok(Self(fields))
    }
}

/// A prompt format: the name of a known one, a text with placeholders in braces, or a dict of parts.
pub(crate) struct PyPrompt(Prompt);

impl<'py> FromPyObject<'_, 'py> for PyPrompt {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(parts) = value.cast::<PyDict>() {
            return parts_of(&parts).map(Prompt::Parts).map(Self);
        }
        let text: String = value.extract().map_err(|_| {
            refuse(value, "reading.prompt", "the name of a prompt, a text or a path")
        })?;
        Ok(Self(match text.as_str() {
            "alpaca" => Prompt::Alpaca,
            "chatml" => Prompt::Chatml,
            "vicuna" => Prompt::Vicuna,
            "qa" => Prompt::Math(MathPrompt::Qa),
            "wizardmath-cot" => Prompt::Math(MathPrompt::WizardmathCot),
            "deepseekmath" => Prompt::Math(MathPrompt::Deepseekmath),
            "deepseekmath-tool" => Prompt::Math(MathPrompt::DeepseekmathTool),
            "xwinmath" => Prompt::Math(MathPrompt::Xwinmath),
            "mammoth2-cot" => Prompt::Math(MathPrompt::Mammoth2Cot),
            "llama3-math" => Prompt::Math(MathPrompt::Llama3Math),
            _ => Prompt::Format(text),
        }))
    }
}

/// Reads the parts of a prompt, under the names of DART-Math. Its `id` is ignored.
fn parts_of(dict: &Bound<'_, PyDict>) -> PyResult<PromptParts> {
    const WANTED: &str = "texts under some of `sys_prompt`, `query_prompt`, `prompt_after_query`, `resp_prompt`, \
                          `prompt_before_resp` and `delim`";
    let mut parts = PromptParts::default();
    let (mut lead, mut before_answer) = (String::new(), String::new());
    for (name, text) in dict.iter() {
        let refused = |_| refuse(name.as_borrowed(), "reading.prompt", WANTED);
        let text: String = text.extract().map_err(refused)?;
        match name.extract::<String>().map_err(refused)?.as_str() {
            "id" => {}
            "sys_prompt" => parts.system = text,
            "query_prompt" => parts.before = text,
            "prompt_after_query" => parts.after = text,
            "resp_prompt" => lead = text,
            "prompt_before_resp" => before_answer = text,
            "delim" => parts.delimiter = text,
            _ => return Err(refuse(name.as_borrowed(), "reading.prompt", WANTED)),
        }
    }
    parts.lead = lead + &before_answer;
    Ok(parts)
}

/// Few-shot examples: pairs of a request and its answer, placed before each request.
pub(crate) struct PyExamples(Vec<(String, String)>);

impl<'py> FromPyObject<'_, 'py> for PyExamples {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if value.is_none() {
            return Ok(Self(Vec::new()));
        }
        let refused =
            |_| refuse(value, "reading.examples", "a list of requests with their answers");
        let pairs: Vec<Vec<String>> = value.extract().map_err(refused)?;
        let pairs = pairs.into_iter().map(|pair| match <[String; 2]>::try_from(pair) {
            Ok([request, answer]) => Ok((request, answer)),
            Err(_) => {
                Err(refuse(value, "reading.examples", "a list of requests with their answers"))
            }
        });
        pairs.collect::<PyResult<_>>().map(Self)
    }
}
