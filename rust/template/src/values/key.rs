//! [`Key`]: a key of a dict, which Python finds by its hash.

use std::hash::{Hash, Hasher};

use indexmap::Equivalent;

use super::texts::text::Text;

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
    /// The same key, if it is no string: such a key borrows nothing.
    pub(crate) fn without_text<'a>(&self) -> Option<Key<'a>> {
        Some(match self {
            Self::Text(_) => return None,
            Self::None => Key::None,
            Self::Bool(value) => Key::Bool(*value),
            Self::Int(value) => Key::Int(*value),
        })
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
