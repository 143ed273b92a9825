//! The keys that values are, and the values that keys are.

use crate::failure::{Failure, RenderResult};
use crate::values::key::Key;
use crate::values::value::Value;

impl<'r> Key<'r> {
    /// The key that a value is.
    pub(crate) fn of(value: Value<'r>) -> RenderResult<Self> {
        Ok(match value {
            Value::String(text) => Self::Text(text),
            Value::None => Self::None,
            Value::Bool(value) => Self::Bool(value),
            Value::Int(value) => Self::Int(value),
            Value::List(_) | Value::Dict(_) => {
                return Err(Failure::error(format!("a {} is no key", value.type_name())));
            }
            other => {
                return Err(Failure::unsupported(format_args!("a {} as a key", other.type_name())));
            }
        })
    }

    /// The key that a dict finds by a value; `None` if no dict has a key that equals it.
    pub(crate) fn sought(value: &Value<'r>) -> RenderResult<Option<Self>> {
        match value {
            Value::Safe(text) => Ok(Some(Self::Text(text.clone()))),
            Value::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
                #[expect(clippy::cast_possible_truncation, reason = "whole, and below 2^53")]
                let whole = *number as i64;
                Ok(Some(Self::Int(whole)))
            }
            Value::Float(_) | Value::Big(_) | Value::Undefined => Ok(None),
            other => Self::of(other.clone()).map(Some),
        }
    }

    /// The value of the key.
    pub(crate) fn value(&self) -> Value<'r> {
        match self {
            Self::Text(text) => Value::String(text.clone()),
            Self::None => Value::None,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
        }
    }
}
