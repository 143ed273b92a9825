//! [`Input`]: the value of one input of a template, such as `messages`.

use std::borrow::Cow;

use crate::json::{Json, Map};
use crate::render_limits::HeldMemory;
use crate::values::texts::text::Text;
use crate::values::value::{Dict, Value};

/// The value of one input of a template.
#[derive(Clone, Copy, Debug)]
pub enum Input<'r> {
    /// `None`
    None,
    /// `True`, `False`
    Bool(bool),
    /// A string.
    Text(&'r str),
    /// A JSON value.
    Json(&'r Json),
    /// A list of objects, such as `messages`.
    Objects(&'r [Cow<'r, Map>]),
}

impl<'r> Input<'r> {
    pub(super) fn value(self) -> Value<'r> {
        match self {
            Self::None => Value::None,
            Self::Bool(value) => Value::Bool(value),
            Self::Text(text) => Value::String(Text::Borrowed(text)),
            Self::Json(value) => Value::from_json(value),
            Self::Objects(objects) => {
                let objects = objects.iter().map(|object| Value::Dict(Dict::Data(object)));
                Value::list(objects.collect(), HeldMemory::default())
            }
        }
    }
}
