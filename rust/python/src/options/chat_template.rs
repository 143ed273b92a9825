//! [`PyRendering`], [`PyTemplateKwargs`] and [`PyConversation`]: the options, variables and messages of a chat template.

use chrono::NaiveDateTime;
use fastpack_core::json::{Json, Map};
use fastpack_core::pipeline::JobTemplate;
use fastpack_core::record::{Conversation, MAX_DEPTH, MessageForms, conversation};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::callers::values_to_json::{digits, has_list};
use crate::convert::{field, refuse};

/// The time that a template sees, and the form of arguments, of a `fastpack.ChatTemplate`.
pub(crate) struct PyRendering {
    pub(super) now: Option<NaiveDateTime>,
    pub(super) decode_arguments: bool,
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
