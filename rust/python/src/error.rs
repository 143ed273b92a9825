//! Converts errors of the core to Python exceptions; no other module does.
//!
//! The classes are defined in `fastpack/errors.py`, because a class with two bases is easier to define in
//! Python.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use fastpack_core::util::message::{ShownPath, in_one_line, one_line, printable};
use fastpack_core::util::redaction::without_secrets;
use fastpack_core::util::wording::{Message, MessagePart, Setting, SettingValue};
use fastpack_core::{Error, Origin};
use pyo3::call::PyCallArgs;
use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

/// The numbers of `ENOENT`, `EACCES`, `EIO` and `EEXIST`, for errors that no system call reported. They are
/// the same on Linux, macOS and Windows.
const NOT_FOUND: i32 = 2;
const ACCESS: i32 = 13;
const INPUT_OUTPUT: i32 = 5;
const EXISTS: i32 = 17;

/// Puts a message on one line of bounded length, with its control characters escaped.
#[pyfunction(name = "one_line")]
pub(crate) fn py_one_line(message: &Bound<'_, PyString>) -> String {
    in_one_line(message.to_string_lossy().into_owned())
}

/// Escapes the control characters of a text of several lines.
#[pyfunction(name = "printable")]
pub(crate) fn py_printable(text: &Bound<'_, PyString>) -> String {
    printable(&text.to_string_lossy()).into_owned()
}

/// Takes users, passwords and queries out of the URLs of a text; returns a text without any as it is.
#[pyfunction(name = "without_secrets")]
pub(crate) fn py_without_secrets<'py>(text: &Bound<'py, PyString>) -> Bound<'py, PyString> {
    match without_secrets(&text.to_string_lossy()) {
        Cow::Borrowed(_) => text.clone(),
        Cow::Owned(shown) => PyString::new(text.py(), &shown),
    }
}

/// Converts an error of the core to an exception.
pub(crate) fn to_py(error: Error) -> PyErr {
    Python::attach(|py| {
        let message = in_one_line(error.to_string());
        match error {
            Error::Record { origin: Origin { path, line }, reason, message: detail } => {
                let message = format!("{}:{line}: {}", ShownPath(&path), one_line(&detail));
                exception(py, "RecordError", (message, path.as_os_str(), line, reason.name()))
            }
            Error::Option { name, reason } => {
                exception(py, "OptionError", (Wording(&reason), name))
            }
            Error::Template { name, line, reason } => {
                let name = in_one_line(name);
                let place = Message::from(format!("chat template `{name}`, line {line}: "));
                let whole = place.with(reason.clone());
                exception(py, "TemplateError", (Wording(&whole), name, line, Wording(&reason)))
            }
            Error::Tokenizer(fastpack_tokenize::Error::Io { path, source })
            | Error::Io { path, source } => from_io(py, &path, &source),
            Error::Tokenizer(_) => exception(py, "TokenizerError", (message,)),
            Error::Changed(path) => {
                let reason =
                    "the file changed while it was read; run again once nothing writes to it";
                exception(py, "StorageError", (INPUT_OUTPUT, reason, path.as_os_str()))
            }
            Error::Stale { path } => {
                let reason =
                    message.strip_prefix(&format!("{}: ", ShownPath(&path))).unwrap_or(&message);
                exception(py, "OutputError", (EXISTS, reason.to_owned(), path.as_os_str()))
            }
            Error::Output { path, reason } | Error::Busy { path, reason } => {
                exception(py, "OutputError", (EXISTS, Wording(&reason), path.as_os_str()))
            }
            Error::Lost { lost, message } => {
                exception(py, "LossError", (Wording(&message), lost.documents, lost.tokens))
            }
            Error::Differs(_) => exception(py, "VerificationError", (message,)),
            Error::Caller(raised) => raised.downcast::<PyErr>().map_or_else(
                |other| exception(py, "FastpackError", (in_one_line(other.to_string()),)),
                |raised| *raised,
            ),
            Error::NoThread(_) => exception(py, "ThreadError", (message,)),
            Error::Unbalanced(_) => exception(py, "LedgerError", (message,)),
            _ => exception(py, "FastpackError", (message,)),
        }
    })
}

/// The exception for an option with an invalid value.
pub(crate) fn option(py: Python<'_>, name: &str, reason: &str) -> PyErr {
    exception(py, "OptionError", (in_one_line(reason.to_owned()), name))
}

/// The exception for an argument of the wrong type.
pub(crate) fn wrong_type(py: Python<'_>, name: &str, reason: &str) -> PyErr {
    exception(py, "OptionTypeError", (in_one_line(reason.to_owned()), name))
}

/// The exception for a panic: a bug in fastpack, which must not end the process.
pub(crate) fn from_panic(panic: &(dyn Any + Send)) -> PyErr {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    let message = format!(
        "fastpack failed in a way that it should not: {}; please report this",
        one_line(text)
    );
    Python::attach(|py| exception(py, "InternalError", (message,)))
}

/// The exception for using a stream in a process that was forked after the stream had started.
pub(crate) fn after_fork(py: Python<'_>) -> PyErr {
    let message = "this stream was started before the process forked; start another one here";
    exception(py, "FastpackError", (message,))
}

/// The exception for using a stream inside its own `filter`, `map`, `progress` or a signal handler.
pub(crate) fn in_use(py: Python<'_>) -> PyErr {
    let message = "this stream is used in its own `filter`, `map` or `progress`, or in a signal handler, \
                   while the same thread reads it; read and close it outside of them";
    exception(py, "FastpackError", (message,))
}

/// The exception for waiting too long for a stream whose `filter`, `map` or `progress` another thread runs:
/// that function may be waiting for this thread.
pub(crate) fn waited_for(py: Python<'_>) -> PyErr {
    let message = "another thread reads this stream and has been in one call of its `filter`, `map` or \
                   `progress` for 10 seconds; such a function must not wait for a thread that uses the stream";
    exception(py, "FastpackError", (message,))
}

/// A `RuntimeError` in place of a `StopIteration` of the caller's code, as in generators: it would end the loop over a stream.
pub(crate) fn not_an_end(py: Python<'_>, raised: PyErr) -> PyErr {
    if !raised.is_instance_of::<PyStopIteration>(py) {
        return raised;
    }
    let replacement = PyRuntimeError::new_err("the caller's code raised StopIteration");
    replacement.set_cause(py, Some(raised));
    replacement
}

fn from_io(py: Python<'_>, path: &Path, source: &io::Error) -> PyErr {
    if let Some(raised) = CallerException::below(source) {
        return raised.0.clone_ref(py);
    }
    let (class, errno) = match source.kind() {
        io::ErrorKind::NotFound => ("InputNotFoundError", NOT_FOUND),
        io::ErrorKind::PermissionDenied => ("AccessError", ACCESS),
        _ => ("StorageError", INPUT_OUTPUT),
    };
    let errno = source.raw_os_error().unwrap_or(errno);
    let text = source.to_string();
    let text = one_line(text.split(" (os error").next().unwrap_or(&text));
    exception(py, class, (errno, text, path.as_os_str()))
}

/// An exception of the caller's file system, as the source of an error of a file; the call raises the exception itself.
#[derive(Clone, Debug)]
pub(crate) struct CallerException(Arc<PyErr>, String);

impl CallerException {
    pub(crate) fn new(py: Python<'_>, raised: PyErr) -> Self {
        let kind = raised.get_type(py).name().map_or_else(|_| String::new(), |it| it.to_string());
        let text = raised.value(py).to_string();
        let text = if text.is_empty() { kind } else { format!("{kind}: {text}") };
        Self(Arc::new(raised), text)
    }

    /// The exception below an error.
    fn below(error: &io::Error) -> Option<&Self> {
        let mut next: Option<&(dyn std::error::Error + 'static)> =
            error.get_ref().map(|inner| inner as _);
        while let Some(error) = next {
            if let Some(raised) = error.downcast_ref() {
                return Some(raised);
            }
            next = error.source();
        }
        None
    }
}

impl fmt::Display for CallerException {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.1)
    }
}

impl std::error::Error for CallerException {}

/// A message of the core as a `fastpack.arguments.message.Message`, which Python and the command line spell each in their
/// way. Its texts are bounded.
struct Wording<'a>(&'a Message);

impl<'py> IntoPyObject<'py> for Wording<'_> {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let module = py.import("fastpack.arguments.message")?;
        let setting = module.getattr("Setting")?;
        let parts = self.0.parts().iter().map(|part| match part {
            MessagePart::Text(text) => Ok(PyString::new(py, &one_line(text)).into_any()),
            MessagePart::Setting(Setting { option, value }) => match value {
                SettingValue::Flag(value) => setting.call1((option, *value)),
                SettingValue::Number(value) => setting.call1((option, *value)),
                SettingValue::Share(value) => setting.call1((option, *value)),
                SettingValue::Word(word) => setting.call1((option, one_line(word))),
            },
        });
        let parts = PyTuple::new(py, parts.collect::<PyResult<Vec<_>>>()?)?;
        module.getattr("Message")?.call1(parts)
    }
}

fn exception<'py>(py: Python<'py>, class: &str, args: impl PyCallArgs<'py>) -> PyErr {
    let built = py.import("fastpack.errors").and_then(|errors| errors.getattr(class)?.call1(args));
    built.map_or_else(|error| error, PyErr::from_value)
}
