//! [`Key`]: a key of a dict, which Python finds by its hash.

use std::hash::{Hash, Hasher};

use indexmap::Equivalent;

use super::text::Text;
use super::value::Value;
use crate::failure::{Failure, Outcome};

/// A key of a dict.
#[derive(Clone)]
pub(crate) enum Key<'r> {
    /// A string.
    Text(Text<'r>),
    /// `None`
    None,
    /// `True`, `False`: the same keys as 1 and 0.
    Bool(bool),
    /// An integer of 64 bits.
    Int(i64),
}

impl<'r> Key<'r> {
    /// The key that a value is.
    pub(crate) fn of(value: Value<'r>) -> Outcome<Self> {
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
    pub(crate) fn sought(value: &Value<'r>) -> Outcome<Option<Self>> {
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

    /// The same key, if it is no string: such a key borrows nothing.
    pub(crate) fn without_text<'a>(&self) -> Option<Key<'a>> {
        Some(match self {
            Self::Text(_) => return None,
            Self::None => Key::None,
            Self::Bool(value) => Key::Bool(*value),
            Self::Int(value) => Key::Int(*value),
        })
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

    /// The text of a key that is one.
    pub(crate) fn as_text(&self) -> Option<&Text<'r>> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Python takes booleans for integers.
    fn number(&self) -> Option<i64> {
        match self {
            Self::Bool(value) => Some(i64::from(*value)),
            Self::Int(value) => Some(*value),
            Self::Text(_) | Self::None => None,
        }
    }
}

impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Text(text) => text.hash(state),
            other => other.number().hash(state),
        }
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(left), Self::Text(right)) => left == right,
            (Self::Text(_), _) | (_, Self::Text(_)) => false,
            (left, right) => left.number() == right.number(),
        }
    }
}

impl Eq for Key<'_> {}

/// A dict finds a string key by its text.
impl<'r> Equivalent<Key<'r>> for str {
    fn equivalent(&self, key: &Key<'r>) -> bool {
        key.as_text().is_some_and(|text| **text == *self)
    }
}
