//! JSON values as Python's `json.loads` understands them, cheap to share with a template.

use std::sync::Arc;

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use num_bigint::BigInt;

/// An object: keys in the order in which they came first, each with the value that came last.
pub type Map = IndexMap<Arc<str>, Json, RandomState>;

/// A JSON value. Cloning one is cheap.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// An integer that fits 64 bits.
    Int(i64),
    /// Any other integer.
    BigInt(Arc<BigInt>),
    /// A number with a fraction or an exponent, `NaN`, `Infinity` or `-Infinity`.
    Float(f64),
    /// A string.
    String(Arc<str>),
    /// An array.
    List(Arc<Vec<Json>>),
    /// An object.
    Map(Arc<Map>),
}

impl Json {
    /// An integer of any size by its decimal digits; `None` for any other text.
    pub fn integer(digits: &str) -> Option<Self> {
        let small = digits.parse().map(Self::Int).ok();
        small.or_else(|| digits.parse().map(|big| Self::BigInt(Arc::new(big))).ok())
    }

    /// The name of the type in error messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::BigInt(_) => "an integer",
            Self::Float(_) => "a float",
            Self::String(_) => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "an object",
        }
    }

    /// The size in bytes of all texts and keys in it, plus one for each other value.
    pub fn size(&self) -> usize {
        match self {
            Self::String(text) => text.len(),
            Self::List(items) => items.iter().map(Self::size).sum(),
            Self::Map(map) => map.iter().map(|(key, value)| key.len() + value.size()).sum(),
            _ => 1,
        }
    }
}
